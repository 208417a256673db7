//! Targets of a route: their names, tiers, prices and speeds, as configured or as told by nodes.

use std::time::Duration;

/// A target of a [`crate::Router`]: its slot, and how often the slot was given to a new target.
///
/// The id of a target that is removed is never given to another, so that an answer which comes late counts for nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// Who owns a target, and how it is paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tier {
    /// An own machine, paid whether used or not. Requests stay in the house.
    Own,
    /// A machine rented by the hour, for instance a GPU server. Requests leave.
    Rented,
    /// A service paid by the token. Requests leave.
    Metered,
}

/// Prices of a token, in nano units (1e-9) of the currency: 0.15 a million tokens is 150.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// An input token that is not cached.
    pub input: u64,
    /// An input token from the prompt cache.
    pub cached: u64,
    /// An output token.
    pub output: u64,
}

impl Price {
    /// The price of a request in nano units, saturating.
    #[must_use]
    pub fn of(&self, uncached: u64, cached: u64, output: u64) -> u64 {
        let input = self.input.saturating_mul(uncached).saturating_add(self.cached.saturating_mul(cached));
        input.saturating_add(self.output.saturating_mul(output))
    }
}

/// Upper bound of the points of a step-time table.
pub const STEP_POINTS: usize = 12;

/// Seconds of a step by its rows: points, linear between them, extrapolated from the last two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepTimes {
    points: [(f64, f64); STEP_POINTS],
    count: usize,
}

impl StepTimes {
    /// Step times from points of (rows, seconds). Points that are not finite and positive are left out, as are those
    /// beyond [`STEP_POINTS`]; a point that takes less than one of fewer rows is raised to it. None if no point is
    /// left.
    #[must_use]
    pub fn new(points: impl IntoIterator<Item = (f64, f64)>) -> Option<StepTimes> {
        let mut times = StepTimes { points: [(0.0, 0.0); STEP_POINTS], count: 0 };
        let valid = |(rows, s): &(f64, f64)| (1e-9..1e9).contains(rows) && (1e-9..1e9).contains(s);
        for point in points.into_iter().take(4 * STEP_POINTS).filter(valid).take(STEP_POINTS) {
            times.points[times.count] = point;
            times.count += 1;
        }
        let points = &mut times.points[..times.count];
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut least = 0.0_f64;
        for (_, seconds) in points {
            least = least.max(*seconds);
            *seconds = least;
        }
        (times.count > 0).then_some(times)
    }

    /// Seconds of a step of `rows` rows.
    #[must_use]
    pub fn seconds(&self, rows: f64) -> f64 {
        let points = &self.points[..self.count];
        let after = points.partition_point(|(at, _)| *at < rows);
        let Some(first) = points.first().filter(|_| after > 0) else { return points[0].1 };
        let (left, right) = match points.get(after) {
            Some(right) => (points[after - 1], *right),
            None if self.count > 1 => (points[self.count - 2], points[self.count - 1]),
            None => return first.1,
        };
        let width = right.0 - left.0;
        if width <= 0.0 { right.1 } else { left.1 + (rows - left.0) / width * (right.1 - left.1) }
    }
}

/// The speed of a target for one model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Prompt tokens computed a second when nothing else is.
    pub prompt_tokens_per_s: f64,
    /// Seconds of a decode step by rows.
    pub steps: StepTimes,
    /// Requests that run at once; none where requests never wait for each other (a large service).
    pub slots: Option<u32>,
}

/// A target of a route.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Name, unique in the route: its state survives a reload by it, and its rendezvous hash follows from it.
    pub name: String,
    /// Who owns the target.
    pub tier: Tier,
    /// Prices of its tokens, if known. Requests never go to a metered target without.
    pub price: Option<Price>,
    /// Share of requests relative to other targets, at least 1.
    pub weight: u32,
    /// Upper bound of the requests in flight from this router.
    pub max_in_flight: Option<u32>,
    /// Speed as configured or measured before, until the target's records and answers tell another.
    pub prior: Option<Speed>,
}

impl Target {
    /// A target of weight 1 without limits, of which nothing is known.
    #[must_use]
    pub fn new(name: impl Into<String>, tier: Tier) -> Target {
        Target { name: name.into(), tier, price: None, weight: 1, max_in_flight: None, prior: None }
    }
}

/// The load of a node, as the node tells it with answers and when idle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeRecord {
    /// Random number of the node's start: another one means that its prefix cache is empty.
    pub boot: u64,
    /// Running requests.
    pub running: u32,
    /// Waiting requests.
    pub waiting: u32,
    /// Prompt tokens of running and waiting requests that are not computed yet.
    pub backlog_tokens: u64,
    /// Prompt tokens computed a second, if measured.
    pub prompt_tokens_per_s: Option<f64>,
    /// Seconds of a step by rows, if measured.
    pub steps: Option<StepTimes>,
    /// Requests that run at once.
    pub slots: Option<u32>,
}

/// Seconds as a duration; negative numbers and NaN as zero, and at most a year.
pub(crate) fn seconds(s: f64) -> Duration {
    Duration::from_secs_f64(s.clamp(0.0, 31_536_000.0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

    use super::*;

    #[test]
    fn step_times_lie_on_lines_and_never_fall() {
        let steps = StepTimes::new([(8.0, 0.032), (1.0, 0.010), (4.0, 0.016), (2.0, 0.008)]).unwrap();
        let at = |rows: f64| (steps.seconds(rows) * 1e6).round() / 1e3;
        assert_eq!([0.5, 1.0, 2.0, 3.0, 8.0, 16.0].map(at), [10.0, 10.0, 10.0, 13.0, 32.0, 64.0]);
        let one = StepTimes::new([(4.0, 0.5)]).unwrap();
        assert_eq!([1.0, 4.0, 9.0].map(|rows| one.seconds(rows)), [0.5; 3]);
        assert_eq!(StepTimes::new([(f64::NAN, 1.0), (1.0, -1.0), (1.0, f64::INFINITY)]), None);
        let endless = StepTimes::new(std::iter::repeat((1.0, 1.0))).unwrap();
        assert_eq!(endless.seconds(9.0), 1.0);
    }

    #[test]
    fn prices_are_sums_and_do_not_overflow() {
        let price = Price { input: 150, cached: 75, output: 600 };
        assert_eq!(price.of(1000, 200, 50), 150_000 + 15_000 + 30_000);
        assert_eq!(price.of(u64::MAX, 1, 1), u64::MAX);
    }
}
