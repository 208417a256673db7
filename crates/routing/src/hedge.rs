//! Hedging: a second attempt at another own target while the first is unusually slow to its first token.
//!
//! Only among own targets, whose seconds are paid anyway; only before the first token; after the 95th percentile of
//! the times of prompts of this size; for at most one of twenty requests; and not while the targets are busy, when a
//! second attempt would make others wait (Dean and Barroso, "The Tail at Scale", 2013).

use std::time::Duration;

use crate::target::seconds;

/// Settings of hedging.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HedgePolicy {
    /// Share of requests that may be hedged; 0 for none.
    pub share: f64,
    /// Saturation of the own targets above which none are.
    pub saturation_below: f64,
}

impl Default for HedgePolicy {
    fn default() -> HedgePolicy {
        HedgePolicy { share: 0.05, saturation_below: 0.7 }
    }
}

/// Times that are kept for a size of prompt.
const KEPT: usize = 128;
/// Fewest times that tell a percentile.
const FEWEST: usize = 20;
/// Classes of prompt sizes: powers of four from 64 tokens.
const SIZES: usize = 8;
/// Hedges that may be saved up.
const SAVED: f64 = 5.0;
/// How often the percentile is computed anew.
const EVERY: u32 = 16;

#[derive(Clone, Debug)]
struct Times {
    ring: [f32; KEPT],
    count: usize,
    since: u32,
    p95_s: f32,
}

/// Times to the first token of a route, and the hedges that are left.
#[derive(Clone, Debug)]
pub(crate) struct Hedger {
    policy: HedgePolicy,
    times: [Times; SIZES],
    left: f64,
}

impl Hedger {
    pub(crate) fn new(policy: HedgePolicy) -> Hedger {
        let times = std::array::from_fn(|_| Times { ring: [0.0; KEPT], count: 0, since: 0, p95_s: 0.0 });
        Hedger { policy, times, left: 1.0 }
    }

    /// A request was dispatched: a twentieth of a hedge more.
    pub(crate) fn dispatched(&mut self) {
        self.left = (self.left + self.policy.share.clamp(0.0, 1.0)).min(SAVED);
    }

    /// A hedge was dispatched.
    pub(crate) fn hedged(&mut self) {
        self.left -= 1.0;
    }

    /// Learns from an answer.
    pub(crate) fn answered(&mut self, prompt_tokens: u64, first_token_s: f64) {
        let times = &mut self.times[size_of_prompt(prompt_tokens)];
        times.ring[times.count % KEPT] = first_token_s as f32;
        times.count += 1;
        times.since += 1;
        if times.since >= EVERY || times.count == FEWEST {
            let mut sorted = times.ring;
            let sorted = &mut sorted[..times.count.min(KEPT)];
            sorted.sort_by(f32::total_cmp);
            times.p95_s = sorted[(sorted.len() * 95).div_ceil(100) - 1];
            times.since = 0;
        }
    }

    /// The time after the dispatch at which a request of so many prompt tokens may be hedged. None if it may not.
    pub(crate) fn delay(&self, prompt_tokens: u64, saturation: f64) -> Option<Duration> {
        let times = &self.times[size_of_prompt(prompt_tokens)];
        let may = self.policy.share > 0.0 && self.left >= 1.0 && saturation < self.policy.saturation_below;
        (may && times.count >= FEWEST).then(|| seconds(f64::from(times.p95_s)))
    }
}

fn size_of_prompt(tokens: u64) -> usize {
    ((tokens / 64).max(1).ilog2() as usize / 2).min(SIZES - 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

    use super::*;

    #[test]
    fn the_delay_is_the_p95_of_prompts_of_the_size() {
        let mut hedger = Hedger::new(HedgePolicy::default());
        for at in 1..=100_u32 {
            assert_eq!(hedger.delay(100, 0.0).is_some(), at as usize > FEWEST);
            hedger.answered(100, f64::from(at));
            hedger.answered(100_000, 1000.0);
        }
        let p95 = hedger.delay(100, 0.0).unwrap().as_secs_f64();
        assert!((90.0..=96.0).contains(&p95), "{p95}");
        assert_eq!(hedger.delay(100_000, 0.0), Some(Duration::from_secs(1000)));
        assert_eq!((hedger.delay(9_000, 0.0), hedger.delay(100, 0.71)), (None, None));
    }

    #[test]
    fn one_of_twenty_is_hedged() {
        let mut hedger = Hedger::new(HedgePolicy::default());
        (0..30).for_each(|_| hedger.answered(100, 1.0));
        let mut hedges = 0;
        for _ in 0..10_000 {
            hedger.dispatched();
            if hedger.delay(100, 0.1).is_some() {
                hedger.hedged();
                hedges += 1;
            }
        }
        assert!((490..=505).contains(&hedges), "{hedges}");
    }
}
