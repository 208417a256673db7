//! What is known of a target's speed and load, and the expected seconds of a request from it.
//!
//! A node's own record is the truth while it is fresh. As it ages, its load fades to that of this router's own
//! requests, and its speed to what answers have told: an old record widens doubt, it never means "full". Own requests
//! since the record are counted at once.

use std::time::Duration;

use crate::line::Line;
use crate::target::{NodeRecord, Speed, StepTimes, Target, Tier};

/// Time in which the load of others, as told by a record, fades to a third.
const LOAD_FADES: f64 = 5.0;
/// Time in which the speed told by a record fades to a third.
const SPEED_FADES: f64 = 300.0;
/// Answers that weigh as much as the prior speed.
const PRIOR_WEIGHT: f64 = 5.0;
/// Least tokens of a prompt that is computed, where no rates are known: a KV block.
const BLOCK: f64 = 64.0;
/// Seconds of a prompt token where no rates are known of any target: only ratios matter then.
const NOMINAL_S: f64 = 1e-3;

/// Rates of a target without a record or prior: the mean of its pool.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PoolRates {
    /// Seconds before any prompt token.
    pub(crate) base_s: f64,
    /// Seconds of a prompt token.
    pub(crate) token_s: f64,
    /// Seconds of a step of one row.
    pub(crate) step_s: f64,
}

/// Expected seconds of a request on a target.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) wait_s: f64,
    pub(crate) prefill_s: f64,
    pub(crate) decode_s: f64,
    /// Seconds that the request adds to those of all others there, together: they wait while its prompt is computed,
    /// and their steps have one row more.
    pub(crate) delay_s: f64,
    /// Seconds of the whole machine that the request takes: its prompt, and its share of the steps.
    pub(crate) machine_s: f64,
}

/// The sizes that an estimate is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Prompt tokens to compute.
    pub(crate) uncached: f64,
    /// Expected tokens of the answer.
    pub(crate) output: f64,
    /// Mean answer of the route's requests, for those that run already.
    pub(crate) mean_output: f64,
}

/// Speed and load of a target, as learned.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    record: Option<NodeRecord>,
    record_at: Duration,
    /// Requests of others at the record.
    others: f64,
    /// Prompt tokens ahead, at `backlog_at`; computed as time passes.
    backlog: f64,
    backlog_at: Duration,
    /// Seconds to the first token over prompt tokens ahead and own.
    prompt: Line,
    /// Seconds of a step over rows.
    step: Line,
}

impl Knowledge {
    /// Takes a node's record. `in_flight` is the number of this router's requests there.
    pub(crate) fn observe(&mut self, now: Duration, record: &NodeRecord, in_flight: u32) {
        let all = f64::from(record.running) + f64::from(record.waiting);
        self.others = (all - f64::from(in_flight)).max(0.0);
        (self.backlog, self.backlog_at) = (record.backlog_tokens as f64, now);
        (self.record, self.record_at) = (Some(*record), now);
    }

    /// Forgets the load of a node that started anew.
    pub(crate) fn restarted(&mut self) {
        (self.others, self.backlog) = (0.0, 0.0);
    }

    /// Counts a request that was dispatched, with the prompt tokens that it has computed.
    pub(crate) fn dispatched(&mut self, now: Duration, target: &Target, uncached: f64) {
        self.backlog = self.backlog_tokens(now, target) + uncached;
        self.backlog_at = now;
    }

    /// Takes the prompt of a request back that ended before its first token.
    pub(crate) fn withdrawn(&mut self, now: Duration, target: &Target, uncached: f64) {
        self.backlog = (self.backlog_tokens(now, target) - uncached).max(0.0);
        self.backlog_at = now;
    }

    /// Learns from an answer: seconds to the first token after `ahead` prompt tokens, and of a step of `rows` rows.
    pub(crate) fn answered(&mut self, ahead: f64, first_token_s: f64, rows: f64, step_s: Option<f64>) {
        self.prompt.observe(ahead, first_token_s);
        if let Some(step_s) = step_s {
            self.stepped(rows, step_s);
        }
    }

    /// Learns the seconds of a step of `rows` rows.
    pub(crate) fn stepped(&mut self, rows: f64, step_s: f64) {
        self.step.observe(rows, step_s);
    }

    /// Freshness of the record, 0 to 1, for what fades within `fades` seconds.
    fn fresh(&self, now: Duration, fades: f64) -> f64 {
        match self.record {
            Some(_) => (-now.saturating_sub(self.record_at).as_secs_f64() / fades).exp(),
            None => 0.0,
        }
    }

    /// Requests at the target: this router's and what is believed of others'.
    pub(crate) fn requests(&self, now: Duration, in_flight: u32) -> f64 {
        let others = if self.others > 0.0 { self.others * self.fresh(now, LOAD_FADES) } else { 0.0 };
        others + f64::from(in_flight)
    }

    /// Seconds before any prompt token, and of a prompt token.
    fn prompt_rate(&self, now: Duration, prior: Option<&Speed>) -> Option<(f64, f64)> {
        let prior_s = prior.map(|speed| 1.0 / speed.prompt_tokens_per_s).filter(|s| s.is_finite());
        let learned = match (self.prompt.fit(), prior_s) {
            (Some((base, slope)), Some(prior_s)) => {
                let weight = self.prompt.count() / (self.prompt.count() + PRIOR_WEIGHT);
                Some((weight * base, weight * slope + (1.0 - weight) * prior_s))
            }
            (fit, prior_s) => fit.or(prior_s.map(|s| (0.0, s))),
        };
        let told = self.record.and_then(|record| record.prompt_tokens_per_s);
        let Some(told) = told.filter(|rate| (1e-6..1e12).contains(rate)) else { return learned };
        let (base, slope) = learned.unwrap_or((0.0, 1.0 / told));
        let fresh = self.fresh(now, SPEED_FADES);
        Some(((1.0 - fresh) * base, fresh / told + (1.0 - fresh) * slope))
    }

    /// Seconds of a step of `rows` rows.
    fn step_s(&self, now: Duration, prior: Option<&Speed>, rows: f64) -> Option<f64> {
        let prior_s = prior.map(|speed| speed.steps.seconds(rows));
        let fitted = self.step.fit().map(|(base, slope)| base + slope * rows);
        let learned = match (fitted, prior_s) {
            (Some(fitted), Some(prior_s)) => {
                let weight = self.step.count() / (self.step.count() + PRIOR_WEIGHT);
                Some(weight * fitted + (1.0 - weight) * prior_s)
            }
            (fitted, prior_s) => fitted.or(prior_s),
        };
        let told = self.record.as_ref().and_then(|record| record.steps.as_ref());
        let Some(told) = told.map(|steps: &StepTimes| steps.seconds(rows)) else { return learned };
        let fresh = self.fresh(now, SPEED_FADES);
        Some(fresh * told + (1.0 - fresh) * learned.unwrap_or(told))
    }

    /// Requests that the target runs at once, if known.
    pub(crate) fn slots(&self, target: &Target) -> Option<f64> {
        let told = self.record.and_then(|record| record.slots);
        let prior = target.prior.and_then(|prior| prior.slots);
        told.or(prior).map(|slots| f64::from(slots.max(1)))
    }

    /// Prompt tokens at the target that are not computed yet: those ahead of a request that is sent now.
    pub(crate) fn backlog_tokens(&self, now: Duration, target: &Target) -> f64 {
        // A metered service computes prompts side by side.
        if self.backlog <= 0.0 || (target.tier == Tier::Metered && self.record.is_none()) {
            return 0.0;
        }
        let passed = now.saturating_sub(self.backlog_at).as_secs_f64();
        let token_s = self.prompt_rate(now, target.prior.as_ref()).map_or(NOMINAL_S, |(_, slope)| slope);
        (self.backlog - passed / token_s.max(1e-9)).max(0.0)
    }

    /// The target's rates for a pool's mean, if known.
    pub(crate) fn rates(&self, now: Duration, target: &Target) -> Option<PoolRates> {
        let prior = target.prior.as_ref();
        let (base_s, token_s) = self.prompt_rate(now, prior)?;
        Some(PoolRates { base_s, token_s, step_s: self.step_s(now, prior, 1.0)? })
    }

    /// The expected seconds of a request.
    pub(crate) fn estimate(
        &self,
        now: Duration,
        target: &Target,
        in_flight: u32,
        sizes: Sizes,
        pool: Option<&PoolRates>,
    ) -> Estimate {
        let prior = target.prior.as_ref();
        let requests = self.requests(now, in_flight);
        let slots = self.slots(target);
        let rows = slots.map_or(requests + 1.0, |slots| slots.min(requests + 1.0));
        let prompt_rate = self.prompt_rate(now, prior).or(pool.map(|pool| (pool.base_s, pool.token_s)));
        let Some((base_s, token_s)) = prompt_rate else {
            // LMetric (arXiv 2603.15202): tokens to compute times requests; no rate is known.
            let prefill_s = sizes.uncached.max(BLOCK) * (requests + 1.0) * NOMINAL_S;
            return Estimate { prefill_s, machine_s: prefill_s, ..Estimate::default() };
        };
        let step = |rows| self.step_s(now, prior, rows).or(pool.map(|pool| pool.step_s)).unwrap_or(0.0);
        let step_s = step(rows);
        // A slot becomes free each time one of the running requests ends.
        let queued = slots.map_or(0.0, |slots| (requests + 1.0 - slots).max(0.0));
        let freed_s = slots.map_or(0.0, |slots| sizes.mean_output * step(slots) / slots);
        let prefill_s = base_s + sizes.uncached * token_s;
        let decode_s = (sizes.output - 1.0).max(0.0) * step_s;
        let row_s = (step_s - step((rows - 1.0).max(1.0))).max(0.0);
        Estimate {
            wait_s: self.backlog_tokens(now, target) * token_s + queued * freed_s,
            prefill_s,
            decode_s,
            delay_s: requests * sizes.uncached * token_s + (rows - 1.0) * sizes.output * row_s,
            machine_s: sizes.uncached * token_s + decode_s / rows.max(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

    use super::*;

    fn s(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn sizes(uncached: f64) -> Sizes {
        Sizes { uncached, output: 101.0, mean_output: 100.0 }
    }

    fn own() -> Target {
        let steps = StepTimes::new([(1.0, 0.01), (4.0, 0.02)]).unwrap();
        let prior = Speed { prompt_tokens_per_s: 1000.0, steps, slots: Some(4) };
        Target { prior: Some(prior), ..Target::new("a", Tier::Own) }
    }

    #[test]
    fn seconds_follow_from_the_prior_and_own_requests() {
        let (mut known, target) = (Knowledge::default(), own());
        let alone = known.estimate(s(1.0), &target, 0, sizes(500.0), None);
        assert_eq!((alone.wait_s, alone.prefill_s, alone.decode_s), (0.0, 0.5, 1.0));
        known.dispatched(s(1.0), &target, 500.0);
        let behind = known.estimate(s(1.2), &target, 4, sizes(500.0), None);
        // 300 tokens are left, and one of four must end: 100 steps of 20 ms by four.
        assert!((behind.wait_s - (0.3 + 0.5)).abs() < 1e-9, "{behind:?}");
        assert!((behind.decode_s - 2.0).abs() < 1e-9, "{behind:?}");
        known.withdrawn(s(1.2), &target, 500.0);
        assert_eq!(known.backlog_tokens(s(1.2), &target), 0.0);
    }

    #[test]
    fn a_record_is_believed_and_fades_to_the_prior() {
        let (mut known, target) = (Knowledge::default(), own());
        let steps = StepTimes::new([(1.0, 0.1)]);
        let record = NodeRecord {
            running: 4,
            waiting: 6,
            backlog_tokens: 2000,
            prompt_tokens_per_s: Some(100.0),
            steps,
            slots: Some(4),
            ..NodeRecord::default()
        };
        known.observe(s(10.0), &record, 2);
        let fresh = known.estimate(s(10.0), &target, 2, sizes(100.0), None);
        assert!((fresh.wait_s - (20.0 + 7.0 * 100.0 * 0.1 / 4.0)).abs() < 1e-9, "{fresh:?}");
        assert!((fresh.prefill_s - 1.0).abs() < 1e-9 && (fresh.decode_s - 10.0).abs() < 1e-9);
        // Own requests have ended, the record is old: the node is thought to be free.
        let stale = known.estimate(s(3_000.0), &target, 0, sizes(100.0), None);
        assert!(stale.wait_s < 1e-3 && (stale.prefill_s - 0.1).abs() < 0.01, "{stale:?}");
        assert!((stale.decode_s - 1.0).abs() < 0.01, "{stale:?}");
    }

    #[test]
    fn answers_tell_the_speed_of_a_target_without_records() {
        let (mut known, target) = (Knowledge::default(), Target::new("api", Tier::Rented));
        let lmetric = |requests, uncached| {
            Knowledge::default().estimate(s(0.0), &target, requests, sizes(uncached), None).prefill_s
        };
        assert!((lmetric(1, 100.0) - 0.2).abs() < 1e-9 && lmetric(0, 0.0) > 0.0);
        for at in 0..60 {
            let (ahead, rows) = (f64::from(at % 7) * 100.0, f64::from(at % 4 + 1));
            known.answered(ahead, 0.2 + ahead / 2000.0, rows, Some(0.02 + 0.005 * rows));
        }
        let found = known.estimate(s(9.0), &target, 1, sizes(1000.0), None);
        assert!((found.prefill_s - 0.7).abs() < 0.01 && (found.decode_s - 3.0).abs() < 0.05, "{found:?}");
        // A pool's mean stands in for a stranger.
        let pool = known.rates(s(9.0), &target).unwrap();
        let stranger = Knowledge::default().estimate(s(9.0), &target, 0, sizes(1000.0), Some(&pool));
        assert!((stranger.prefill_s - 0.7).abs() < 0.01);
    }
}
