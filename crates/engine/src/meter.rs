//! Per-request accounting of compute time: all time since the engine started is charged to a sequence, to waiting for
//! the device, or to idling.
//!
//! A step's time is split over its rows. Each row is charged the same part of the cost of a step of that many rows;
//! prefill rows are also charged for attention, by the positions they attend to. Sampling a token, or scoring a
//! prompt's, is charged to its sequence. The time between two steps is charged to the later one, except for the wait
//! for a turn on a shared device, which is charged to no sequence. The time without work is idle.
//!
//! Times are whole nanoseconds, so that the parts sum to the clock exactly.

use std::time::Duration;

use crate::pace::RowWeights;
use crate::running::Running;
use crate::sequence::Sequence;
use crate::times::{TimeTotals, nanos};

/// Charges sequences for the time that passes.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Until here all time is accounted for; none while there is nothing to do.
    settled: Option<Duration>,
    /// Start of the current wait for a turn; none while the engine does not wait.
    waits_since: Option<Duration>,
}

impl Meter {
    /// There is work.
    pub(crate) fn busy(&mut self, now: Duration, times: &TimeTotals) {
        if self.settled.is_none() {
            self.settled = Some(now);
            times.busy(now);
        }
    }

    /// There is nothing to do any more.
    pub(crate) fn idle(&mut self, times: &TimeTotals) {
        if let Some(settled) = self.settled.take() {
            times.idle(settled);
        }
    }

    /// The engine begins to wait for a turn.
    pub(crate) fn begin_wait(&mut self, now: Duration) {
        self.waits_since.get_or_insert(now);
    }

    /// Ends the wait for a turn.
    pub(crate) fn end_wait(&mut self, now: Duration, times: &TimeTotals) {
        let Some(since) = self.waits_since.take() else { return };
        if let Some(settled) = &mut self.settled {
            let waited = now.saturating_sub(since.max(*settled));
            *settled += waited;
            times.add_waiting(nanos(waited));
        }
    }

    /// A step's rows were computed by `now`: all time until then is theirs.
    pub(crate) fn split(
        &mut self,
        running: &mut [Running<Sequence>],
        weights: RowWeights,
        now: Duration,
        times: &TimeTotals,
    ) {
        let weigh = |r: &Running<Sequence>| {
            let attended = f64::from(weights.attended_position) * r.attended_positions() as f64;
            f64::from(weights.row) * r.rows as f64 + attended
        };
        let sum: f64 = running.iter().map(weigh).sum();
        let all = self.pass(now);
        let (mut weight, mut given, mut completion) = (0.0, 0, 0);
        for running in running.iter_mut().filter(|r| r.rows > 0) {
            weight += weigh(running);
            // The last one's share ends at all of it, but for rounding.
            let until = if weight < sum { (all as f64 * (weight / sum)) as u64 } else { all };
            let part = until.min(all).saturating_sub(given);
            given += part;
            if running.is_prefill() || running.sequence.is_unanswered() {
                running.sequence.prompt_time += Duration::from_nanos(part);
            } else {
                running.sequence.completion_time += Duration::from_nanos(part);
                completion += part;
            }
        }
        times.add_prompt(given - completion);
        times.add_completion(completion);
        // The rounding remainder is charged with the next step.
        self.settled = self.settled.map(|settled| settled - Duration::from_nanos(all - given));
    }

    /// A token was chosen by `now`, or a prompt's were scored.
    pub(crate) fn charge(&mut self, sequence: &mut Sequence, now: Duration, times: &TimeTotals) {
        let part = self.pass(now);
        if sequence.is_unanswered() {
            sequence.prompt_time += Duration::from_nanos(part);
            times.add_prompt(part);
        } else {
            sequence.completion_time += Duration::from_nanos(part);
            times.add_completion(part);
        }
    }

    /// Nanoseconds not yet accounted for, which are from now on.
    pub(crate) fn pass(&mut self, now: Duration) -> u64 {
        let Some(settled) = &mut self.settled else { return 0 };
        let passed = now.saturating_sub(*settled);
        *settled += passed;
        nanos(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_grows_while_it_lasts_and_is_counted_once() {
        let (times, mut meter) = (TimeTotals::default(), Meter::default());
        let ms = Duration::from_millis;
        let idle = |now| times.read(ms(now)).idle;
        assert_eq!((idle(0), idle(7)), (ms(0), ms(7)));
        meter.busy(ms(10), &times);
        meter.busy(ms(11), &times);
        assert_eq!((idle(10), idle(20)), (ms(10), ms(10)), "a step under way is not idle, nor charged yet");
        meter.pass(ms(30));
        meter.idle(&times);
        assert_eq!((idle(30), idle(35)), (ms(10), ms(15)));
        meter.busy(ms(36), &times);
        assert_eq!(idle(50), ms(16));
    }

    #[test]
    fn a_wait_for_a_turn_is_nobodys() {
        let (times, mut meter) = (TimeTotals::default(), Meter::default());
        let ms = Duration::from_millis;
        meter.busy(ms(10), &times);
        meter.begin_wait(ms(12));
        // It was interrupted and went on.
        meter.begin_wait(ms(15));
        meter.end_wait(ms(20), &times);
        meter.end_wait(ms(25), &times);
        assert_eq!(times.read(ms(20)).waiting, ms(8));
        assert_eq!(meter.pass(ms(21)), 3_000_000, "what lies before the wait and after it");
        meter.idle(&times);
        meter.begin_wait(ms(30));
        meter.end_wait(ms(40), &times);
        assert_eq!(times.read(ms(40)).waiting, ms(8), "without work nothing waits");
    }
}
