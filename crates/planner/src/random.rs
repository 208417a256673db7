//! Seeded random numbers, the same on every machine and in every version, so that a plan's results can be reproduced.

/// SplitMix64 (Steele, Lea and Flood, 2014): one multiply-xorshift mix of a counter.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A uniform number above 0 and up to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// An exponential number with this mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }

    /// A standard normal number (Box and Muller, 1958; the first of the pair).
    pub(crate) fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut random = Random::new(7);
        let n = 200_000;
        let mean = |sum: f64| sum / f64::from(n);
        let exponential = mean((0..n).map(|_| random.exponential(3.0)).sum());
        assert!((exponential - 3.0).abs() < 0.03, "{exponential}");
        let square = mean((0..n).map(|_| random.normal().powi(2)).sum());
        assert!((square - 1.0).abs() < 0.02, "{square}");
    }
}
