//! Whose the machine's time was: every moment since the engine started is some sequence's or nobody's.
//!
//! A step's time is split over its rows. Each row gets the same part of what steps of so many rows cost, as any order
//! of adding rows could have made any of them the dear one; prompt rows get beside it what looking back costs, by the
//! positions they look at. Choosing a token, or scoring a prompt's, is its own sequence's time. What lies between two steps goes to the later
//! one, and the time without work is idle.
//!
//! Whole nanoseconds are handed on, so that the parts sum to the clock exactly.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::scheduler::Running;
use crate::sequence::Sequence;
use crate::stats::Counters;

/// What a row weighs in its step, in seconds; only their ratio matters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Weights {
    /// Each row.
    pub(crate) row: f32,
    /// Each position that a prompt row looks back at.
    pub(crate) look: f32,
}

/// Time used, as shown to anyone.
#[derive(Debug)]
pub(crate) struct Times {
    prompt: AtomicU64,
    output: AtomicU64,
    idle: AtomicU64,
    /// Since when there is nothing to do; [`BUSY`] while there is. Written before `idle` when work begins.
    resting_since: AtomicU64,
}

const BUSY: u64 = u64::MAX;

impl Default for Times {
    fn default() -> Times {
        let zero = AtomicU64::default;
        Times { prompt: zero(), output: zero(), idle: zero(), resting_since: zero() }
    }
}

impl Times {
    /// For prompts, for answers and idle, up to the end of the last step or, without work, up to `now`.
    pub(crate) fn read(&self, now: Duration) -> [Duration; 3] {
        let idle = loop {
            let since = self.resting_since.load(Ordering::Acquire);
            let idle = self.idle.load(Ordering::Acquire);
            // Else work began in between, and `idle` may hold this rest already.
            if self.resting_since.load(Ordering::Acquire) == since {
                break if since == BUSY { idle } else { idle + nanos(now).saturating_sub(since) };
            }
        };
        let [prompt, output] = [&self.prompt, &self.output].map(|time| time.load(Ordering::Relaxed));
        [prompt, output, idle].map(Duration::from_nanos)
    }
}

/// Charges sequences for the time that passes.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Until here all time is charged; none while there is nothing to do.
    settled: Option<Duration>,
}

impl Meter {
    /// A step begins.
    pub(crate) fn wake(&mut self, began: Duration, times: &Times) {
        if self.settled.is_none() {
            self.settled = Some(began);
            let since = times.resting_since.swap(BUSY, Ordering::AcqRel);
            times.idle.fetch_add(nanos(began).saturating_sub(since), Ordering::Release);
        }
    }

    /// There is nothing to do any more.
    pub(crate) fn rest(&mut self, times: &Times) {
        if let Some(settled) = self.settled.take() {
            times.resting_since.store(nanos(settled), Ordering::Release);
        }
    }

    /// A step's rows were computed by `now`: all time until then is theirs.
    pub(crate) fn split(
        &mut self,
        running: &mut [Running<Sequence>],
        weights: Weights,
        now: Duration,
        counters: &Counters,
    ) {
        let weigh = |r: &Running<Sequence>| {
            f64::from(weights.row) * r.rows as f64 + f64::from(weights.look) * r.looks() as f64
        };
        let sum: f64 = running.iter().map(weigh).sum();
        let all = self.pass(now);
        let (mut weight, mut given, mut output) = (0.0, 0, 0);
        for running in running.iter_mut().filter(|r| r.rows > 0) {
            weight += weigh(running);
            // The last one's share ends at all of it, but for rounding.
            let until = if weight < sum { (all as f64 * (weight / sum)) as u64 } else { all };
            let part = until.min(all).saturating_sub(given);
            given += part;
            if running.reads() || running.sequence.is_unanswered() {
                running.sequence.prompt_time += Duration::from_nanos(part);
            } else {
                running.sequence.completion_time += Duration::from_nanos(part);
                output += part;
            }
        }
        counters.times.prompt.fetch_add(given - output, Ordering::Relaxed);
        counters.times.output.fetch_add(output, Ordering::Relaxed);
        // What rounding left over waits for the next.
        self.settled = self.settled.map(|settled| settled - Duration::from_nanos(all - given));
    }

    /// A token was chosen by `now`, or a prompt's were scored.
    pub(crate) fn choose(&mut self, sequence: &mut Sequence, now: Duration, counters: &Counters) {
        let part = self.pass(now);
        let (time, all) = if sequence.is_unanswered() {
            (&mut sequence.prompt_time, &counters.times.prompt)
        } else {
            (&mut sequence.completion_time, &counters.times.output)
        };
        *time += Duration::from_nanos(part);
        all.fetch_add(part, Ordering::Relaxed);
    }

    /// Nanoseconds not yet charged, which are from now on.
    fn pass(&mut self, now: Duration) -> u64 {
        let Some(settled) = &mut self.settled else { return 0 };
        let passed = now.saturating_sub(*settled);
        *settled += passed;
        nanos(passed)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(BUSY - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_grows_while_it_lasts_and_is_counted_once() {
        let (times, mut meter) = (Times::default(), Meter::default());
        let ms = Duration::from_millis;
        let idle = |now| times.read(ms(now))[2];
        assert_eq!((idle(0), idle(7)), (ms(0), ms(7)));
        meter.wake(ms(10), &times);
        meter.wake(ms(11), &times);
        assert_eq!((idle(10), idle(20)), (ms(10), ms(10)), "a step under way is not idle, nor charged yet");
        meter.pass(ms(30));
        meter.rest(&times);
        assert_eq!((idle(30), idle(35)), (ms(10), ms(15)));
        meter.wake(ms(36), &times);
        assert_eq!(idle(50), ms(16));
    }
}
