//! When requests arrive: gaps from a gamma distribution, as `vllm bench serve` draws them.

use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Gamma};

use crate::Failure;

/// How requests arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arrivals {
    /// Requests a second; infinite sends all at once.
    pub(super) rate: f64,
    /// The gamma distribution's shape: 1 is a Poisson process, less comes in bursts, more comes evenly, infinity is a
    /// metronome.
    pub(super) burstiness: f64,
}

impl Arrivals {
    /// # Errors
    /// A rate or a burstiness that is not above zero.
    pub(super) fn new(rate: f64, burstiness: f64) -> Result<Arrivals, Failure> {
        for (name, value) in [("--request-rate", rate), ("--burstiness", burstiness)] {
            if value.is_nan() || value <= 0.0 {
                return Err(Failure::usage(format!("{name} {value} is not above 0")));
            }
        }
        Ok(Arrivals { rate, burstiness })
    }

    /// Seconds from the start at which each of `count` requests arrives, in order. As in vLLM the sum of the gaps is
    /// scaled to `count / rate`, so that seeds differ in the pattern and not in the load.
    pub(super) fn times(self, count: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
        if self.rate.is_infinite() {
            return vec![0.0; count];
        }
        let mut at = 0.0;
        let mut times: Vec<f64> = (0..count)
            .map(|_| {
                at += self.gap(rng);
                at
            })
            .collect();
        if at > 0.0 {
            let scale = count as f64 / self.rate / at;
            times.iter_mut().for_each(|time| *time *= scale);
        }
        times
    }

    fn gap(self, rng: &mut ChaCha8Rng) -> f64 {
        if self.burstiness.is_infinite() {
            return 1.0 / self.rate;
        }
        // Only parameters that are not above zero are refused, and a scale that underflows to zero is.
        match Gamma::new(self.burstiness, 1.0 / (self.rate * self.burstiness)) {
            Ok(gamma) => gamma.sample(rng),
            Err(_) => 1.0 / self.rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    fn times(rate: f64, burstiness: f64, count: usize) -> Vec<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        Arrivals::new(rate, burstiness).unwrap().times(count, &mut rng)
    }

    /// The squared coefficient of variation of the gaps: 1/shape for a gamma distribution.
    fn variation(times: &[f64]) -> f64 {
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        square / (mean * mean)
    }

    #[test]
    fn all_at_once_without_a_rate() {
        assert_eq!(times(f64::INFINITY, 1.0, 3), [0.0; 3]);
    }

    #[test]
    fn the_last_arrives_when_the_rate_says() {
        for burstiness in [0.25, 1.0, 4.0, f64::INFINITY] {
            let times = times(5.0, burstiness, 100);
            assert!((times[99] - 20.0).abs() < 1e-9, "{}", times[99]);
            assert!(times.is_sorted() && times[0] >= 0.0);
        }
    }

    #[test]
    fn gaps_are_gamma() {
        for (burstiness, expected) in [(0.25, 4.0), (1.0, 1.0), (4.0, 0.25)] {
            let found = variation(&times(10.0, burstiness, 100_000));
            assert!((found / expected - 1.0).abs() < 0.06, "{burstiness}: {found} for {expected}");
        }
        assert!(variation(&times(10.0, f64::INFINITY, 100)) < 1e-12);
    }

    #[test]
    fn a_seed_repeats() {
        assert_eq!(times(2.0, 1.0, 50), times(2.0, 1.0, 50));
    }

    #[test]
    fn nonsense_is_refused() {
        for (rate, burstiness) in [(0.0, 1.0), (-1.0, 1.0), (f64::NAN, 1.0), (1.0, 0.0)] {
            assert_eq!(Arrivals::new(rate, burstiness).unwrap_err().code, 2);
        }
    }
}
