//! Random numbers that are the same on every machine for a seed: xoshiro256++ (Blackman and Vigna, 2019), its state
//! filled by splitmix64 as its authors advise.

/// One stream of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Rng([u64; 4]);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        let mut state = seed;
        Rng(std::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    pub(crate) fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in [0, 1), in steps of 2^-53.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_of_a_known_state() {
        // The reference implementation's output for the state {1, 2, 3, 4}.
        let mut rng = Rng([1, 2, 3, 4]);
        let first: Vec<u64> = (0..4).map(|_| rng.next()).collect();
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn units_fill_the_interval_evenly() {
        let mut rng = Rng::new(7);
        let mut tenths = [0; 10];
        for _ in 0..100_000 {
            let u = rng.unit();
            assert!((0.0..1.0).contains(&u));
            tenths[(u * 10.0) as usize] += 1;
        }
        // Six standard deviations of a binomial with n = 100,000 and p = 0.1 are 570.
        assert!(tenths.iter().all(|n| (9_430..=10_570).contains(n)), "{tenths:?}");
    }
}
