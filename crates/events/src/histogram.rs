//! A histogram that is counted without a lock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Observations by upper bound. `prometheus-client`'s own histogram locks for each observation, of which every token
/// makes one. Clones share their numbers.
#[derive(Debug, Clone)]
pub(crate) struct Histogram(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    /// Upper bounds, ascending.
    bounds: Box<[f64]>,
    /// Observations up to each bound and above the one before; one more for those above the last.
    counts: Box<[AtomicU64]>,
    /// Bits of the sum of all observations.
    sum: AtomicU64,
}

impl Histogram {
    /// An empty histogram with these upper bounds, which ascend.
    pub(crate) fn new(bounds: &[f64]) -> Histogram {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram(Arc::new(Counts { bounds: bounds.into(), counts, sum: AtomicU64::new(0) }))
    }

    /// Counts a value.
    pub(crate) fn observe(&self, value: f64) {
        let Counts { bounds, counts, sum } = &*self.0;
        counts[bounds.partition_point(|bound| *bound < value)].fetch_add(1, Ordering::Relaxed);
        let plus = |bits| Some((f64::from_bits(bits) + value).to_bits());
        let _ = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, plus);
    }
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let Counts { bounds, counts, sum } = &*self.0;
        // `prometheus-client` writes this bound as +Inf.
        let bounds = bounds.iter().copied().chain([f64::MAX]);
        let counts = counts.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        // The total is of the buckets as they were read: the last one must equal it.
        let total = buckets.iter().map(|(_, count)| count).sum();
        encoder.encode_histogram::<NoLabelSet>(
            f64::from_bits(sum.load(Ordering::Relaxed)),
            total,
            &buckets,
            None,
        )
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn a_value_belongs_to_the_first_bound_that_is_not_below_it() {
        let (ours, theirs) =
            (Histogram::new(&[0.5, 1.0]), prometheus_client::metrics::histogram::Histogram::new([0.5, 1.0]));
        for value in [0.0, 0.5, 0.75, 1.0, 1.5, 1e9] {
            ours.observe(value);
            theirs.observe(value);
        }
        let (mut one, mut other) = (Registry::default(), Registry::default());
        one.register("h", "help", ours);
        other.register("h", "help", theirs);
        let (mut found, mut expected) = (String::new(), String::new());
        encode(&mut found, &one).unwrap();
        encode(&mut expected, &other).unwrap();
        assert_eq!(found, expected);
        assert!(found.contains("h_bucket{le=\"0.5\"} 2\nh_bucket{le=\"1.0\"} 4\nh_bucket{le=\"+Inf\"} 6\n"));
    }

    #[test]
    fn threads_lose_nothing() {
        let histogram = Histogram::new(&[1.0]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| histogram.observe(0.5)));
            }
        });
        assert_eq!(histogram.0.counts[0].load(Ordering::Relaxed), 40_000);
        assert_eq!(f64::from_bits(histogram.0.sum.load(Ordering::Relaxed)), 20_000.0);
    }
}
