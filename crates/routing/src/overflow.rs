//! Overflow ("burst"): which requests leave the own machines, and what a second of an own machine is worth.
//!
//! An own machine costs the same busy or idle, so its seconds are worth nothing while it has some to spare, and as much
//! as the service that takes the overflow once it has none: the shadow price. Requests leave when own targets would
//! miss the service level, those first that relieve the most machine-seconds for their price.
//!
//! Hysteresis: leaving begins after the level was missed for some seconds, and ends when the expected time has been well
//! below it for as long. The share of requests that may leave rises slowly, so that a burst does not send everything
//! away. While requests may leave, each is decided by its own expected time: those that would miss the level leave; in
//! the band below it, those that relieve the most for their price.

use std::time::Duration;

/// Settings of the overflow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OverflowPolicy {
    /// The service level: seconds to the first token.
    pub first_token_s: f64,
    /// How long the level must be missed before requests leave, and be kept well before they stay.
    pub leave_after: Duration,
    /// Share of the own requests that may miss the level: a little less than 0.05 for a 95th percentile. Once half as many were about to,
    /// requests leave at once.
    pub allowance: f64,
    /// Requests leave whose expected time on own targets is above this share of the level, at first: it follows how
    /// many of the answers miss the level.
    pub leave_above: f64,
    /// None leaves below this share of the level; between both, those that relieve the most for their price.
    pub return_below: f64,
    /// Change of the share of requests that may leave, a second.
    pub ramp_per_s: f64,
    /// Utilization of the own targets below which their seconds are worth nothing.
    pub idle_below: f64,
}

impl OverflowPolicy {
    /// The usual settings for a service level of so many seconds to the first token.
    #[must_use]
    pub fn for_level(first_token_s: f64) -> OverflowPolicy {
        OverflowPolicy {
            first_token_s,
            leave_after: Duration::from_secs(10),
            allowance: 0.04,
            leave_above: 0.9,
            return_below: 0.7,
            ramp_per_s: 0.1,
            idle_below: 0.7,
        }
    }
}

/// Requests whose machine-seconds for their price are remembered.
const REMEMBERED: usize = 128;
/// Weight of a request in the share that stayed although it would miss the level.
const MISSED_FOLLOWS: f64 = 0.002;
/// Change of the level of leaving by an answer that misses the service level.
const LEVEL_FOLLOWS: f64 = 0.01;
/// Time in which the expected wait, as smoothed for the hysteresis, follows a change to two thirds.
const SMOOTHED_S: f64 = 2.0;

/// A request as the overflow sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaver {
    /// Expected seconds to its first token on own targets.
    pub(crate) own_s: f64,
    /// Own machine-seconds that it would take.
    pub(crate) machine_s: f64,
    /// Price of the service that would take it, in nano units.
    pub(crate) price: u64,
}

impl Leaver {
    /// Machine-seconds relieved for a nano unit.
    fn density(&self) -> f64 {
        self.machine_s / (self.price.max(1) as f64)
    }
}

/// The state of a route's overflow.
#[derive(Clone, Debug)]
pub(crate) struct Overflow {
    policy: OverflowPolicy,
    /// Expected seconds to the first token on own targets, smoothed.
    smoothed_s: f64,
    at: Duration,
    /// Since when the level is missed.
    over_since: Option<Duration>,
    /// Since when the expected time is below the level of return.
    calm_since: Option<Duration>,
    is_leaving: bool,
    share: f64,
    /// Share of the last requests that stayed although they would miss the level.
    missed: f64,
    /// `leave_above`, corrected by answers.
    leave_above: f64,
    /// Densities of the last requests.
    seen: [f64; REMEMBERED],
    count: usize,
}

impl Overflow {
    pub(crate) fn new(policy: OverflowPolicy) -> Overflow {
        Overflow {
            policy,
            smoothed_s: 0.0,
            at: Duration::ZERO,
            over_since: None,
            calm_since: None,
            is_leaving: false,
            share: 0.0,
            missed: 0.0,
            leave_above: policy.leave_above,
            seen: [0.0; REMEMBERED],
            count: 0,
        }
    }

    /// Takes note of a request that stayed or left.
    pub(crate) fn note(&mut self, now: Duration, leaver: &Leaver, left: bool) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.at = now;
        let follow = 1.0 - (-passed / SMOOTHED_S).exp();
        // No expected time is meant to be more than it can be told apart.
        let own_s = leaver.own_s.min(10.0 * self.policy.first_token_s);
        self.smoothed_s += (own_s - self.smoothed_s) * follow;
        let misses = !left && leaver.own_s > self.policy.first_token_s;
        self.missed += MISSED_FOLLOWS * (f64::from(u8::from(misses)) - self.missed);
        self.seen[self.count % REMEMBERED] = leaver.density();
        self.count += 1;
        let OverflowPolicy { first_token_s, return_below, .. } = self.policy;
        if self.smoothed_s < return_below * first_token_s {
            self.over_since = None;
            let since = *self.calm_since.get_or_insert(now);
            if now.saturating_sub(since) >= self.policy.leave_after {
                self.share = (self.share - self.policy.ramp_per_s * passed).max(0.0);
                self.is_leaving &= self.share > 0.0;
            }
            return;
        }
        self.calm_since = None;
        if self.smoothed_s > self.leave_above * first_token_s {
            let since = *self.over_since.get_or_insert(now);
            self.is_leaving |= now.saturating_sub(since) >= self.policy.leave_after;
            if self.is_leaving {
                self.share = (self.share + self.policy.ramp_per_s * passed).min(1.0);
            }
        }
    }

    /// Whether a request leaves; `unit` is a random number, 0 to 1.
    pub(crate) fn leaves(&self, leaver: &Leaver, unit: f64) -> bool {
        let over = self.missed > self.policy.allowance / 2.0;
        let may = if over { 1.0 } else { self.share() };
        let share = self.urgency(leaver.own_s).min(may);
        share > 0.0 && self.rank(leaver.density(), unit) <= share
    }

    /// Learns from an answer of an own target: the level of leaving moves until the allowed share misses the service
    /// level (a quantile by stochastic approximation, Robbins and Monro, 1951).
    pub(crate) fn answered(&mut self, first_token_s: f64) {
        let missed = f64::from(u8::from(first_token_s > self.policy.first_token_s));
        let moved = self.leave_above + LEVEL_FOLLOWS * (self.policy.allowance - missed);
        self.leave_above = moved.clamp(self.policy.leave_above / 4.0, self.policy.leave_above);
    }

    /// The share of requests that should leave at an expected time: none below the level of return, all at the level
    /// of leaving and above.
    fn urgency(&self, own_s: f64) -> f64 {
        let OverflowPolicy { first_token_s, leave_above, return_below, .. } = self.policy;
        let top = self.leave_above * first_token_s;
        let width = (1.0 - return_below / leave_above).max(1e-6) * top;
        ((own_s - top + width) / width).clamp(0.0, 1.0)
    }

    /// The share of the last requests that relieve more for their price; of equal ones a random part.
    fn rank(&self, density: f64, unit: f64) -> f64 {
        let seen = &self.seen[..self.count.min(REMEMBERED)];
        let more = seen.iter().filter(|other| **other > density * 1.000_001).count() as f64;
        let less = seen.iter().filter(|other| **other < density * 0.999_999).count() as f64;
        let count = seen.len().max(1) as f64;
        (more + (count - more - less) * unit) / count
    }

    /// The service level, in seconds to the first token.
    pub(crate) fn level_s(&self) -> f64 {
        self.policy.first_token_s
    }

    /// The share of requests that may leave, 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        if self.is_leaving { self.share } else { 0.0 }
    }

    /// The worth of a second of an own machine, in nano units: nothing below the idle utilization, the price for which
    /// the last requests relieve a second once the service level is just kept, more beyond it.
    pub(crate) fn shadow_price(&self, utilization: f64) -> f64 {
        let idle = self.policy.idle_below;
        if utilization <= idle || self.count == 0 {
            return 0.0;
        }
        let seen = &self.seen[..self.count.min(REMEMBERED)];
        let mean = seen.iter().sum::<f64>() / seen.len() as f64;
        let busy = ((utilization - idle) / (1.0 - idle).max(1e-6)).min(1.0);
        let waits = self.smoothed_s / self.policy.first_token_s;
        if mean > 0.0 { busy * waits / mean } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(own_s: f64, price: u64) -> Leaver {
        Leaver { own_s, machine_s: 1.0, price }
    }

    /// Notes a request each tenth of a second.
    fn spend(overflow: &mut Overflow, from_s: f64, to_s: f64, own_s: f64) {
        let mut tenth = (from_s * 10.0) as u64;
        while tenth < (to_s * 10.0) as u64 {
            overflow.note(Duration::from_millis(tenth * 100), &of(own_s, 1000 + tenth % 10), false);
            tenth += 1;
        }
    }

    #[test]
    fn leaving_begins_late_rises_slowly_and_ends_below_the_level() {
        let patient = OverflowPolicy { allowance: 1.0, ..OverflowPolicy::for_level(2.0) };
        let mut overflow = Overflow::new(patient);
        spend(&mut overflow, 0.0, 20.0, 0.1);
        assert_eq!((overflow.share(), overflow.shadow_price(0.5)), (0.0, 0.0));
        spend(&mut overflow, 20.0, 29.0, 3.0);
        assert!(!overflow.leaves(&of(3.0, 1000), 0.0), "ten seconds have not passed");
        spend(&mut overflow, 29.0, 36.0, 3.0);
        assert!((0.25..0.55).contains(&overflow.share()), "{}", overflow.share());
        // The cheapest leave first, those that would wait only.
        assert!(overflow.leaves(&of(3.0, 1000), 1.0) && !overflow.leaves(&of(3.0, 1009), 0.0));
        assert!(!overflow.leaves(&of(1.0, 1000), 0.0));
        let dear = overflow.shadow_price(1.0);
        assert!((1000.0..2000.0).contains(&dear), "{dear}");
        // Between the levels nothing changes.
        spend(&mut overflow, 36.0, 46.0, 1.6);
        let held = overflow.share();
        spend(&mut overflow, 46.0, 56.0, 1.6);
        assert_eq!(overflow.share(), held);
        spend(&mut overflow, 56.0, 66.0, 0.5);
        assert!(overflow.share() > 0.0);
        spend(&mut overflow, 66.0, 90.0, 0.5);
        assert_eq!(overflow.share(), 0.0);
    }

    #[test]
    fn misses_end_the_patience_and_answers_move_the_threshold() {
        let mut overflow = Overflow::new(OverflowPolicy::for_level(2.0));
        spend(&mut overflow, 0.0, 0.9, 3.0);
        assert!(!overflow.leaves(&of(3.0, 1000), 0.5), "nine misses of five hundred");
        spend(&mut overflow, 0.9, 1.3, 3.0);
        assert!(overflow.leaves(&of(3.0, 1000), 0.5) && !overflow.leaves(&of(1.2, 1000), 0.5));
        (0..60).for_each(|_| overflow.answered(9.0));
        assert!(overflow.leaves(&of(1.2, 1000), 0.5));
        (0..3_000).for_each(|_| overflow.answered(0.1));
        assert!(!overflow.leaves(&of(1.2, 1000), 0.5));
    }

    #[test]
    fn of_equal_requests_a_share_leaves() {
        let patient = OverflowPolicy { allowance: 1.0, ..OverflowPolicy::for_level(2.0) };
        let mut overflow = Overflow::new(patient);
        for tenth in 0..160 {
            overflow.note(Duration::from_millis(tenth * 100), &of(9.0, 1000), false);
        }
        let left = (0..100).filter(|at| overflow.leaves(&of(9.0, 1000), f64::from(*at) / 100.0)).count();
        let share = (overflow.share() * 100.0) as usize;
        assert!(left.abs_diff(share) <= 1 && (20..80).contains(&share), "{left} {share}");
    }
}
