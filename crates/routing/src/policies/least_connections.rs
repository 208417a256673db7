//! Fewest requests in flight for the weight, with `max_fails` and `fail_timeout` as nginx has them.
//!
//! A target that fails `max_fails` times within `fail_timeout` is not used for `fail_timeout`, and then tried with one
//! request. This takes the place of the circuit breaker.

use std::time::Duration;

use crate::breaker::Gate;
use crate::candidate::{Candidate, Choice};

/// nginx's `max_fails` and `fail_timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxFails {
    /// Failures that take a target out; 0 for never.
    pub max_fails: u32,
    /// The time in which they are counted, and for which the target is out.
    pub fail_timeout: Duration,
}

impl Default for MaxFails {
    fn default() -> MaxFails {
        MaxFails { max_fails: 1, fail_timeout: Duration::from_secs(10) }
    }
}

/// The failures of a target.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fails {
    count: u32,
    /// When the first of them was, or the last once the target is out.
    since: Duration,
    is_tried: bool,
}

impl Fails {
    pub(crate) fn gate(&self, now: Duration, limits: &MaxFails) -> Gate {
        if !self.is_out(limits) {
            return Gate::Closed;
        }
        let until = self.since + limits.fail_timeout;
        if now < until || self.is_tried { Gate::Open(until.max(now)) } else { Gate::ProbeDue }
    }

    pub(crate) fn is_out(&self, limits: &MaxFails) -> bool {
        limits.max_fails > 0 && self.count >= limits.max_fails
    }

    pub(crate) fn probing(&mut self) {
        self.is_tried = true;
    }

    pub(crate) fn answered(&mut self, probe: bool, limits: &MaxFails) {
        if probe || !self.is_out(limits) {
            *self = Fails::default();
        }
    }

    pub(crate) fn failed(&mut self, now: Duration, probe: bool, limits: &MaxFails) {
        if self.is_out(limits) {
            if probe {
                (self.since, self.is_tried) = (now, false);
            }
            return;
        }
        if self.count == 0 || now > self.since + limits.fail_timeout {
            (self.count, self.since) = (0, now);
        }
        self.count += 1;
        if self.is_out(limits) {
            self.since = now;
        }
    }

    pub(crate) fn undecided(&mut self, probe: bool) {
        self.is_tried &= !probe;
    }
}

/// The candidate with the fewest requests for its weight; of equal ones, the next in turn.
pub(crate) fn choose(candidates: &[Candidate], turn: u64) -> Option<Choice> {
    let count = candidates.len();
    let load = |at: usize| f64::from(candidates[at].in_flight) / f64::from(candidates[at].weight.max(1));
    let start = (turn % count.max(1) as u64) as usize;
    let order = (0..count).map(|at| (start + at) % count);
    order.min_by(|a, b| load(*a).total_cmp(&load(*b))).map(Choice::by_policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fails_are_those_of_nginx() {
        let limits = MaxFails { max_fails: 3, fail_timeout: Duration::from_secs(10) };
        let s = Duration::from_secs;
        let mut fails = Fails::default();
        // Failures that lie apart are forgotten.
        [0, 1, 12].into_iter().for_each(|at| fails.failed(s(at), false, &limits));
        assert_eq!(fails.gate(s(12), &limits), Gate::Closed);
        [13, 14].into_iter().for_each(|at| fails.failed(s(at), false, &limits));
        assert_eq!(fails.gate(s(15), &limits), Gate::Open(s(24)));
        assert_eq!(fails.gate(s(24), &limits), Gate::ProbeDue);
        fails.probing();
        assert!(matches!(fails.gate(s(25), &limits), Gate::Open(_)));
        fails.failed(s(26), true, &limits);
        assert_eq!(fails.gate(s(26), &limits), Gate::Open(s(36)));
        fails.probing();
        fails.undecided(true);
        assert_eq!(fails.gate(s(36), &limits), Gate::ProbeDue);
        fails.probing();
        fails.answered(true, &limits);
        assert_eq!(fails.gate(s(37), &limits), Gate::Closed);
        let never = MaxFails { max_fails: 0, ..limits };
        (0..99).for_each(|_| fails.failed(s(40), false, &never));
        assert_eq!(fails.gate(s(40), &never), Gate::Closed);
    }
}
