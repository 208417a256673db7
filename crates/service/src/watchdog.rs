//! A watchdog of the engine: whether it makes steps while it has work.
//!
//! Seconds without a step are counted by a task of this process, not read off the clock: a process that was stopped
//! (SIGSTOP, a frozen container, a suspended machine) has not been stuck for as long as it did not run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Between two looks.
pub(crate) const TICK: Duration = Duration::from_secs(1);
/// Without a step for so long the engine is stuck. The longest step there is, a chunk of a large prompt on a slow
/// machine, takes seconds.
const STUCK: Duration = Duration::from_secs(60);

/// Steps of the engine, and for how many ticks there was none.
#[derive(Debug, Default)]
pub struct Watchdog {
    beats: AtomicU64,
    silent_ticks: AtomicU64,
}

impl Watchdog {
    /// The engine made a step.
    pub(crate) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// How long the engine has been stuck, if it is.
    pub fn stuck(&self) -> Option<Duration> {
        Some(self.silent()).filter(|silent| *silent >= STUCK)
    }

    /// For how long the engine has had work and made no step.
    pub fn silent(&self) -> Duration {
        TICK * u32::try_from(self.silent_ticks.load(Ordering::Relaxed)).unwrap_or(u32::MAX)
    }

    /// A second has passed. `seen` is the count of beats at the last tick.
    pub(crate) fn tick(&self, busy: bool, seen: &mut u64) {
        let beats = self.beats.load(Ordering::Relaxed);
        if busy && beats == *seen {
            self.silent_ticks.fetch_add(1, Ordering::Relaxed);
        } else {
            self.silent_ticks.store(0, Ordering::Relaxed);
        }
        *seen = beats;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_only_with_work() {
        let (watchdog, mut seen) = (Watchdog::default(), 0);
        let mut ticks = |busy: bool, count: usize| (0..count).for_each(|_| watchdog.tick(busy, &mut seen));
        ticks(false, 1_000);
        assert_eq!(watchdog.stuck(), None);
        ticks(true, 59);
        assert_eq!(watchdog.stuck(), None);
        ticks(true, 1);
        assert_eq!(watchdog.stuck(), Some(STUCK));
        watchdog.beat();
        ticks(true, 1);
        assert_eq!(watchdog.stuck(), None);
    }
}
