//! Fair queueing: which waiting request starts next.
//!
//! Two levels. Classes of priority share the starts by weight, and within a class its callers share them evenly,
//! charged by the tokens of their requests: the least served one comes next. So no class and no caller starves, however
//! many requests another sends. Within one caller the shortest prompt comes first, with ageing: a second of waiting
//! makes up for half a second of work.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use crate::{Caller, Priority};

/// Ageing: seconds of work that a second of waiting makes up for.
pub(crate) const AGING: f32 = 0.5;

/// Most tokens of an answer that its request is charged for at its start: few answers are as long as `max_tokens`.
const MAX_CHARGED_ANSWER: usize = 512;

/// The properties that decide a waiting request's place in the queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueRank {
    pub(crate) caller: Caller,
    /// Whether the request was preempted; it then comes first in its class.
    pub(crate) resumes: bool,
    /// Tokens to compute before the next one is sampled.
    pub(crate) tokens: usize,
    /// Most tokens that may still be generated.
    pub(crate) answer: usize,
    pub(crate) since: Duration,
}

/// Service received so far, by class and by caller.
#[derive(Debug, Default)]
pub(crate) struct FairShares {
    classes: [f64; Priority::ALL.len()],
    /// Tokens of each caller that waits. Bounded: callers that do not wait are dropped.
    callers: HashMap<Caller, f64>,
}

impl FairShares {
    /// Index in `waiting` of the request to start, one of class `least` or more urgent. `seconds` estimates the time to
    /// prefill a number of tokens.
    pub(crate) fn next<S>(
        &mut self,
        waiting: &VecDeque<S>,
        rank: impl Fn(&S) -> QueueRank,
        least: Priority,
        now: Duration,
        seconds: impl Fn(usize) -> f32,
    ) -> Option<usize> {
        let ranks: Vec<QueueRank> = waiting.iter().map(rank).collect();
        self.forget_idle(&ranks);
        let key = |r: &QueueRank| {
            let class = self.classes[r.caller.priority as usize];
            let waited = now.saturating_sub(r.since).as_secs_f32();
            let urgency = if r.resumes { f32::MIN } else { seconds(r.tokens) - AGING * waited };
            (class, self.of(r.caller), urgency)
        };
        let order = |a: &(f64, f64, f32), b: &(f64, f64, f32)| {
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2))
        };
        let keys = ranks.iter().map(key).enumerate();
        let keys = keys.filter(|(at, _)| ranks[*at].caller.priority <= least);
        keys.min_by(|a, b| order(&a.1, &b.1)).map(|(at, _)| at)
    }

    /// Charges a request that starts. (One that resumes was charged before.)
    pub(crate) fn charge(&mut self, rank: &QueueRank) {
        if rank.resumes {
            return;
        }
        let tokens = (rank.tokens + rank.answer.min(MAX_CHARGED_ANSWER)) as f64;
        self.classes[rank.caller.priority as usize] += tokens / rank.caller.priority.weight();
        if let Some(used) = self.callers.get_mut(&rank.caller) {
            *used += tokens;
        }
    }

    /// A class or caller that was not waiting starts at the least served one: unused service is not saved up.
    fn forget_idle(&mut self, ranks: &[QueueRank]) {
        let waiting: HashSet<Caller> = ranks.iter().map(|r| r.caller).collect();
        self.callers.retain(|caller, _| waiting.contains(caller));
        let least = self.callers.values().copied().reduce(f64::min).unwrap_or(0.0);
        for caller in waiting {
            self.callers.entry(caller).or_insert(least);
        }
        let present = |class: usize| ranks.iter().any(|r| r.caller.priority as usize == class);
        let active = (0..self.classes.len()).filter(|class| present(*class));
        let least = active.map(|class| self.classes[class]).reduce(f64::min).unwrap_or(0.0);
        for class in 0..self.classes.len() {
            if !present(class) {
                self.classes[class] = self.classes[class].max(least);
            }
        }
    }

    fn of(&self, caller: Caller) -> f64 {
        self.callers.get(&caller).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(priority: Priority, client: u64, tokens: usize, since: u64) -> QueueRank {
        let caller = Caller { priority, client };
        QueueRank { caller, resumes: false, tokens, answer: 0, since: Duration::from_secs(since) }
    }

    /// Starts `count` of `waiting`, which never runs dry: each started one is replaced by its like.
    fn starts(waiting: &[QueueRank], count: usize) -> Vec<usize> {
        let waiting: VecDeque<QueueRank> = waiting.iter().copied().collect();
        let (mut shares, mut starts) = (FairShares::default(), vec![0; waiting.len()]);
        for _ in 0..count {
            let at = shares.next(&waiting, |r| *r, Priority::Batch, Duration::ZERO, |n| n as f32).unwrap();
            shares.charge(&waiting[at]);
            starts[at] += 1;
        }
        starts
    }

    #[test]
    fn classes_share_by_weight_and_none_starves() {
        let of = |p| rank(p, 0, 10, 0);
        let all = [of(Priority::Interactive), of(Priority::Default), of(Priority::Batch)];
        let starts = starts(&all, 2100);
        assert!((1500..=1700).contains(&starts[0]) && (380..=420).contains(&starts[1]), "{starts:?}");
        assert!((90..=110).contains(&starts[2]), "{starts:?}");
    }

    #[test]
    fn a_caller_with_many_requests_gets_no_more_than_one_with_few() {
        let mut all = vec![rank(Priority::Default, 1, 10, 0); 20];
        all.push(rank(Priority::Default, 2, 10, 0));
        let starts = starts(&all, 100);
        assert!((49..=51).contains(&starts[20]), "{starts:?}");
    }

    #[test]
    fn short_prompts_come_first_until_a_long_one_has_waited() {
        let (long, short) = (rank(Priority::Default, 0, 100, 0), rank(Priority::Default, 0, 1, 50));
        let waiting = VecDeque::from([long, short]);
        let next = |now| {
            let seconds = |n| n as f32 / 10.0;
            FairShares::default().next(&waiting, |r| *r, Priority::Batch, Duration::from_secs(now), seconds)
        };
        assert_eq!((next(0), next(60)), (Some(1), Some(0)));
        let resumes = QueueRank { resumes: true, ..long };
        let waiting = VecDeque::from([short, resumes]);
        assert_eq!(
            FairShares::default().next(&waiting, |r| *r, Priority::Batch, Duration::ZERO, |n| n as f32),
            Some(1)
        );
    }

    #[test]
    fn a_share_that_was_not_used_is_not_saved_up() {
        let (here, away) = (rank(Priority::Default, 1, 10, 0), rank(Priority::Batch, 2, 10, 0));
        let mut shares = FairShares::default();
        let alone = VecDeque::from([here]);
        for _ in 0..1000 {
            shares.next(&alone, |r| *r, Priority::Batch, Duration::ZERO, |_| 0.0);
            shares.charge(&here);
        }
        let both = VecDeque::from([here, away]);
        let mut batch = 0;
        for _ in 0..100 {
            let at = shares.next(&both, |r| *r, Priority::Batch, Duration::ZERO, |_| 0.0).unwrap();
            shares.charge(&both[at]);
            batch += at;
        }
        assert!((15..=25).contains(&batch), "{batch} of 100 starts for a weight of one in five");
    }
}
