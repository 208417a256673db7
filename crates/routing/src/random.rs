//! Seeded random numbers and the mixing of 64-bit values, the same on every machine and in every version.

/// SplitMix64 (Steele, Lea and Flood, 2014): one multiply-xorshift mix of a counter.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A stream of numbers that follows from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A uniform number above 0 and up to 1.
    pub fn unit(&mut self) -> f64 {
        to_unit(self.bits())
    }

    /// A uniform integer below `limit`; 0 for a limit of 0.
    pub fn below(&mut self, limit: usize) -> usize {
        // Lemire's multiplication; its bias is below 2^-40 for the sizes used here.
        ((u128::from(self.bits()) * limit as u128) >> 64) as usize
    }

    /// An exponential number with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }
}

/// The finalizer of SplitMix64: every bit of the result depends on every bit of `z`.
#[must_use]
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The 53 upper bits as a number above 0 and up to 1.
pub(crate) fn to_unit(bits: u64) -> f64 {
    ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut random = Random::new(7);
        let n = 100_000;
        let mean = (0..n).map(|_| random.exponential(3.0)).sum::<f64>() / f64::from(n);
        assert!((mean - 3.0).abs() < 0.05, "{mean}");
        let mut seen = [0; 5];
        (0..n).for_each(|_| seen[random.below(5)] += 1);
        assert!(seen.iter().all(|count| (19_000..21_000).contains(count)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
