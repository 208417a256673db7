//! The mean time of recent jobs, from which waits are estimated.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Weight of the latest job: one in so many.
const MEAN_OF: u64 = 16;

/// The mean time of recent jobs.
#[derive(Debug, Default)]
pub struct MeanTime {
    /// Microseconds; 0 before the first job.
    micros: AtomicU64,
}

impl MeanTime {
    /// Counts a job that took so long.
    pub fn count(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let mean = self.micros.load(Ordering::Relaxed);
        let next = if mean == 0 { took } else { mean - mean / MEAN_OF + took / MEAN_OF };
        self.micros.store(next.max(1), Ordering::Relaxed);
    }

    /// Seconds until a job behind `queued` others is done, `parallel` of them at once; none before the first job.
    pub fn expected_seconds(&self, queued: u64, parallel: usize) -> Option<f64> {
        let mean = self.micros.load(Ordering::Relaxed);
        let rounds = queued / parallel.max(1) as u64 + 1;
        (mean > 0).then(|| mean as f64 * rounds as f64 / 1e6)
    }
}
