//! A histogram of durations with a bounded relative error.

/// Steps in each doubling: a value is at most 1/128 above its step's lower end.
const STEPS: u64 = 128;

/// Counts of durations, in microseconds, exact below 128 and within 0.8 % above.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    largest: u64,
}

fn step_of(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    // The doubling, and the step in it, from the seven bits after the highest one.
    let shift = value.ilog2() - STEPS.ilog2();
    ((u64::from(shift) + 1) * STEPS + (value >> shift) - STEPS) as usize
}

fn lower_end(step: usize) -> u64 {
    let step = step as u64;
    if step < STEPS {
        return step;
    }
    (step % STEPS + STEPS) << (step / STEPS - 1)
}

impl Histogram {
    /// Counts a duration in microseconds.
    pub fn add(&mut self, microseconds: u64) {
        let step = step_of(microseconds);
        if step >= self.counts.len() {
            self.counts.resize(step + 1, 0);
        }
        self.counts[step] += 1;
        self.total += 1;
        self.sum += u128::from(microseconds);
        self.largest = self.largest.max(microseconds);
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, other)| *count += other);
        self.total += other.total;
        self.sum += other.sum;
        self.largest = self.largest.max(other.largest);
    }

    /// Durations counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The mean, in microseconds; 0 of none.
    pub fn mean(&self) -> u64 {
        u64::try_from(self.sum / u128::from(self.total.max(1))).unwrap_or(u64::MAX)
    }

    /// The largest, in microseconds; 0 of none.
    pub fn max(&self) -> u64 {
        self.largest
    }

    /// The smallest duration that at least the share `quantile` of the durations does not exceed, in microseconds.
    pub fn quantile(&self, quantile: f64) -> u64 {
        let rank = ((quantile.clamp(0.0, 1.0) * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (step, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return lower_end(step);
            }
        }
        self.largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn steps_are_within_their_error(value in 0u64..1 << 50) {
            let low = lower_end(step_of(value));
            prop_assert!(low <= value && value - low <= low / STEPS, "{value} in {low}");
        }

        #[test]
        fn quantiles_are_those_of_the_sorted_values(
            mut values in prop::collection::vec(0u64..1 << 30, 1..200), quantile in 0.0f64..1.0,
        ) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|&value| histogram.add(value));
            values.sort_unstable();
            let rank = ((quantile * values.len() as f64).ceil() as usize).max(1);
            prop_assert_eq!(histogram.quantile(quantile), lower_end(step_of(values[rank - 1])));
        }
    }

    #[test]
    fn merged_counts_are_those_of_all() {
        let (mut one, mut two, mut all) = (Histogram::default(), Histogram::default(), Histogram::default());
        for value in 0..1_000 {
            if value % 3 == 0 {
                one.add(value)
            } else {
                two.add(value * 7)
            }
            all.add(if value % 3 == 0 { value } else { value * 7 });
        }
        one.merge(&two);
        assert_eq!((one.count(), one.max(), one.mean()), (all.count(), all.max(), all.mean()));
        assert_eq!(one.quantile(0.9), all.quantile(0.9));
    }
}
