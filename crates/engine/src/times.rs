//! Totals of an engine's time, written by the engine's thread and readable by any thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Time since the engine started, by what it was used for, in nanoseconds.
#[derive(Debug)]
pub(crate) struct TimeTotals {
    prompt: AtomicU64,
    completion: AtomicU64,
    /// Waiting for turns on the device.
    waiting: AtomicU64,
    idle: AtomicU64,
    /// Since when there is nothing to do; [`BUSY`] while there is. Written before `idle` when work begins.
    idle_since: AtomicU64,
}

/// Values of [`TimeTotals::read`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TimeSplit {
    pub(crate) prompt: Duration,
    pub(crate) completion: Duration,
    pub(crate) waiting: Duration,
    pub(crate) idle: Duration,
}

const BUSY: u64 = u64::MAX;

impl Default for TimeTotals {
    fn default() -> TimeTotals {
        let zero = AtomicU64::default;
        TimeTotals { prompt: zero(), completion: zero(), waiting: zero(), idle: zero(), idle_since: zero() }
    }
}

impl TimeTotals {
    /// The total up to the end of the last step or, without work, up to `now`.
    pub(crate) fn read(&self, now: Duration) -> TimeSplit {
        let idle = loop {
            let since = self.idle_since.load(Ordering::Acquire);
            let idle = self.idle.load(Ordering::Acquire);
            // Else work began in between, and `idle` may hold this pause already.
            if self.idle_since.load(Ordering::Acquire) == since {
                break if since == BUSY { idle } else { idle + nanos(now).saturating_sub(since) };
            }
        };
        let [prompt, completion, waiting] = [&self.prompt, &self.completion, &self.waiting]
            .map(|time| Duration::from_nanos(time.load(Ordering::Relaxed)));
        TimeSplit { prompt, completion, waiting, idle: Duration::from_nanos(idle) }
    }

    pub(crate) fn add_prompt(&self, nanos: u64) {
        self.prompt.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(crate) fn add_completion(&self, nanos: u64) {
        self.completion.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(crate) fn add_waiting(&self, nanos: u64) {
        self.waiting.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Work begins.
    pub(crate) fn busy(&self, now: Duration) {
        let since = self.idle_since.swap(BUSY, Ordering::AcqRel);
        self.idle.fetch_add(nanos(now).saturating_sub(since), Ordering::Release);
    }

    /// There is no work from `since` on.
    pub(crate) fn idle(&self, since: Duration) {
        self.idle_since.store(nanos(since), Ordering::Release);
    }
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(BUSY - 1)
}
