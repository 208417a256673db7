//! Counts of a model's inference requests, for the statistics of the Open Inference Protocol.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// An inference request that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InferenceSample {
    /// Whether it was answered.
    pub succeeded: bool,
    /// Inputs: rows, texts or prompts.
    pub items: usize,
    /// From arrival to the end.
    pub total: Duration,
    /// Waiting before the computation.
    pub queued: Duration,
    /// The computation.
    pub computed: Duration,
    /// Milliseconds since 1970 of its end.
    pub at_ms: u64,
}

/// How often something happened, and how long it took in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CountedTime {
    /// How often.
    pub count: u64,
    /// Nanoseconds.
    pub ns: u64,
}

/// What a model has done since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InferenceCounts {
    /// Milliseconds since 1970 of the last request's end; 0 without one.
    pub last_ms: u64,
    /// Inputs that were answered.
    pub items: u64,
    /// Requests that were answered.
    pub success: CountedTime,
    /// Requests that failed.
    pub fail: CountedTime,
    /// Waiting of those that were answered.
    pub queue: CountedTime,
    /// Computation of those that were answered.
    pub compute: CountedTime,
}

#[derive(Default)]
struct Sum {
    count: AtomicU64,
    ns: AtomicU64,
}

impl Sum {
    fn add(&self, time: Duration) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.ns.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn now(&self) -> CountedTime {
        CountedTime { count: self.count.load(Ordering::Relaxed), ns: self.ns.load(Ordering::Relaxed) }
    }
}

/// The sums of one model.
#[derive(Default)]
pub(crate) struct InferenceSums {
    last_ms: AtomicU64,
    items: AtomicU64,
    success: Sum,
    fail: Sum,
    queue: Sum,
    compute: Sum,
}

impl InferenceSums {
    pub(crate) fn record(&self, sample: &InferenceSample) {
        self.last_ms.fetch_max(sample.at_ms, Ordering::Relaxed);
        if !sample.succeeded {
            return self.fail.add(sample.total);
        }
        self.items.fetch_add(sample.items as u64, Ordering::Relaxed);
        self.success.add(sample.total);
        self.queue.add(sample.queued);
        self.compute.add(sample.computed);
    }

    pub(crate) fn counts(&self) -> InferenceCounts {
        InferenceCounts {
            last_ms: self.last_ms.load(Ordering::Relaxed),
            items: self.items.load(Ordering::Relaxed),
            success: self.success.now(),
            fail: self.fail.now(),
            queue: self.queue.now(),
            compute: self.compute.now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_of_what_was_answered() {
        let sums = InferenceSums::default();
        let ms = Duration::from_millis;
        let sample = InferenceSample {
            succeeded: true,
            items: 3,
            total: ms(9),
            queued: ms(2),
            computed: ms(5),
            at_ms: 70,
        };
        sums.record(&sample);
        sums.record(&InferenceSample { succeeded: false, at_ms: 60, ..sample });
        let counts = sums.counts();
        assert_eq!((counts.items, counts.last_ms), (3, 70));
        let once = |ns| CountedTime { count: 1, ns };
        assert_eq!([counts.success, counts.fail], [once(9_000_000); 2]);
        assert_eq!([counts.queue, counts.compute], [once(2_000_000), once(5_000_000)]);
    }
}
