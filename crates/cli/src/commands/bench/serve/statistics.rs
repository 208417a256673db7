//! Mean, deviation and percentiles as numpy computes them, because `vllm bench serve` prints numpy's.

/// The arithmetic mean; 0 of nothing, as vLLM prints it.
pub(super) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The population's standard deviation (`numpy.std`: divided by n, not n − 1); 0 of nothing.
pub(super) fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: Vec<f64> = values.iter().map(|value| (value - mean).powi(2)).collect();
    self::mean(&squares).sqrt()
}

/// Values in ascending order, for percentiles.
#[derive(Clone, Debug)]
pub(super) struct Sorted(Vec<f64>);

impl Sorted {
    pub(super) fn new(values: &[f64]) -> Sorted {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Sorted(sorted)
    }

    pub(super) fn values(&self) -> &[f64] {
        &self.0
    }

    /// `numpy.percentile` with its default method `linear`: the value at rank p/100 · (n − 1), interpolated between the
    /// two neighbours. 0 of nothing. `percent` is in 0..=100.
    pub(super) fn percentile(&self, percent: f64) -> f64 {
        let Some(last) = self.0.len().checked_sub(1) else { return 0.0 };
        let rank = (percent / 100.0).clamp(0.0, 1.0) * last as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and the length"
        )]
        let below = rank.floor() as usize;
        let (low, high) = (self.0[below], self.0[(below + 1).min(last)]);
        let share = rank - below as f64;
        // Anchored at the nearer end, as numpy does it, so that equal neighbours give their value exactly.
        if share < 0.5 { low + (high - low) * share } else { high - (high - low) * (1.0 - share) }
    }

    pub(super) fn median(&self) -> f64 {
        self.percentile(50.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What numpy 2 prints for `v = [15, 20, 35, 40, 50]` and `w = [0.1, 0.2, 0.7, 3.5]`.
    #[test]
    fn numpy_says_the_same() {
        let v = Sorted::new(&[40.0, 15.0, 50.0, 20.0, 35.0]);
        for (percent, expected) in [(0.0, 15.0), (40.0, 29.0), (50.0, 35.0), (99.0, 49.6), (100.0, 50.0)] {
            assert!(
                (v.percentile(percent) - expected).abs() < 1e-12,
                "p{percent}: {}",
                v.percentile(percent)
            );
        }
        let w = Sorted::new(&[0.1, 0.2, 0.7, 3.5]);
        for (percent, expected) in [(25.0, 0.175), (50.0, 0.45), (90.0, 2.66), (99.0, 3.416)] {
            assert!(
                (w.percentile(percent) - expected).abs() < 1e-12,
                "p{percent}: {}",
                w.percentile(percent)
            );
        }
        assert!((deviation(&[15.0, 20.0, 35.0, 40.0, 50.0]) - 12.884_098_726_725_126).abs() < 1e-12);
        assert!((mean(&[0.1, 0.2, 0.7, 3.5]) - 1.125).abs() < 1e-12);
    }

    #[test]
    fn nothing_and_one() {
        assert_eq!((mean(&[]), deviation(&[]), Sorted::new(&[]).percentile(99.0)), (0.0, 0.0, 0.0));
        let one = Sorted::new(&[4.0]);
        assert_eq!((one.percentile(1.0), one.median(), one.percentile(99.0)), (4.0, 4.0, 4.0));
        assert_eq!(Sorted::new(&[0.3, 0.3, 0.3]).percentile(37.0), 0.3);
    }
}
