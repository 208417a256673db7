//! Rate limits against a naive model: a bucket that is refilled by fractions, and a list of what ran.

use crate::common::ANN;
use ledger::{RateHold, RateLimit, RateUnit, Rates, Scope};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn limit(
    scope: Scope,
    name: &str,
    requests: Option<u32>,
    tokens: Option<u64>,
    concurrent: Option<u32>,
) -> RateLimit {
    RateLimit {
        scope,
        name: name.to_owned(),
        requests_per_minute: requests,
        tokens_per_minute: tokens,
        concurrent,
    }
}

/// A bucket in whole numbers: what is in it, in 1/60e9 of a unit.
struct Bucket {
    limit: i128,
    level: i128,
    at: u64,
}

impl Bucket {
    fn new(limit: u64) -> Bucket {
        Bucket { limit: i128::from(limit), level: i128::from(limit) * 60_000_000_000, at: 0 }
    }

    fn refill(&mut self, now: u64) {
        let full = self.limit * 60_000_000_000;
        self.level = (self.level + self.limit * i128::from(now - self.at)).min(full);
        self.at = now;
    }

    fn has(&self, count: u64) -> bool {
        self.level >= i128::from(count) * 60_000_000_000
    }

    fn take(&mut self, count: i128) {
        self.level -= count * 60_000_000_000;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Requests, and tokens whose estimates were right or too high, pass just when the naive buckets have them.
    #[test]
    fn gcra_is_a_token_bucket(
        requests in 1..100_u32,
        tokens in 1..10_000_u64,
        concurrent in 1..5_u32,
        steps in prop::collection::vec((0..3 * SECOND, 0..3_000_u64, any::<bool>(), 0..=100_u64), 1..150),
    ) {
        let limits = [
            limit(Scope::Key, "ann", Some(requests), None, Some(concurrent)),
            limit(Scope::Everything, "", None, Some(tokens), None),
        ];
        let mut rates = Rates::new(&limits).unwrap();
        let (mut count, mut sum) = (Bucket::new(u64::from(requests)), Bucket::new(tokens));
        let mut running: Vec<(RateHold, u64)> = Vec::new();
        let mut now = 0;
        for (pause, estimate, ends, percent) in steps {
            now += pause;
            count.refill(now);
            sum.refill(now);
            if ends && !running.is_empty() {
                let (hold, estimate) = running.remove(0);
                let actual = estimate * percent / 100;
                rates.release(now, hold, Some(actual));
                sum.take(i128::from(actual) - i128::from(estimate));
                sum.refill(now);
                continue;
            }
            let fits = (running.len() as u32) < concurrent && count.has(1) && sum.has(estimate);
            match rates.acquire(now, ANN, estimate) {
                Ok(hold) => {
                    prop_assert!(fits);
                    count.take(1);
                    sum.take(i128::from(estimate));
                    running.push((hold, estimate));
                }
                Err(limited) => {
                    prop_assert!(!fits, "{limited}");
                    let Some(wait) = limited.retry_after_ns else { continue };
                    // Just then it passes, and not a nanosecond before.
                    let (bucket, needs) = match limited.unit {
                        RateUnit::Requests => (&count, 1),
                        _ => (&sum, estimate),
                    };
                    let at = |ns: u64| bucket.level + bucket.limit * i128::from(ns) >= i128::from(needs) * 60_000_000_000;
                    prop_assert!(at(wait) && !at(wait - 1), "{wait}");
                }
            }
        }
    }
}

#[test]
fn a_refusal_takes_nothing_and_names_the_limit() {
    let limits = [
        limit(Scope::Key, "ann", Some(2), None, None),
        limit(Scope::Team, "search", None, Some(100), None),
        limit(Scope::Model, "small", None, None, Some(1)),
    ];
    let mut rates = Rates::new(&limits).unwrap();
    let refused = rates.acquire(0, ANN, 101).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "rate limit: 100 tokens a minute for team `search`; this request alone has more"
    );
    let first = rates.acquire(0, ANN, 60).unwrap();
    let refused = rates.acquire(0, ANN, 60).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "rate limit: 100 tokens a minute for team `search`; the next is possible in 12 s"
    );
    let refused = rates.acquire(0, ANN, 1).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "rate limit: 1 requests at a time for model `small`; the next is possible when another ends"
    );
    // 60 were estimated and 10 used: 90 are left.
    rates.release(0, first, Some(10));
    let second = rates.acquire(0, ANN, 90).unwrap();
    rates.release(0, second, None);
    let refused = rates.acquire(0, ANN, 0).unwrap_err();
    assert_eq!((refused.unit, refused.retry_after_ns), (RateUnit::Requests, Some(30 * SECOND)));
    // The same limits again: nothing begins anew. Other ones: what is new does.
    rates.set_limits(&limits).unwrap();
    assert!(rates.acquire(0, ANN, 0).is_err());
    rates.set_limits(&[limit(Scope::Key, "ann", Some(3), None, None)]).unwrap();
    let third = rates.acquire(0, ANN, 1_000).unwrap();
    rates.set_limits(&[]).unwrap();
    rates.release(0, third, Some(1));
}

#[test]
fn usage_above_the_estimate_delays_the_next() {
    let mut rates = Rates::new(&[limit(Scope::Everything, "", None, Some(60), None)]).unwrap();
    let hold = rates.acquire(0, ANN, 10).unwrap();
    rates.release(0, hold, Some(90));
    let refused = rates.acquire(0, ANN, 1).unwrap_err();
    assert_eq!(refused.retry_after_ns, Some(31 * SECOND));
    // An absurd usage closes the limit for an hour, not for ever.
    let hold = rates.acquire(31 * SECOND, ANN, 1).unwrap();
    rates.release(31 * SECOND, hold, Some(u64::MAX));
    assert!(rates.acquire(31 * SECOND, ANN, 1).unwrap_err().retry_after_ns.unwrap() <= 3_600 * SECOND);
}

#[test]
fn wrong_limits_are_named() {
    let twice = [limit(Scope::Key, "a", Some(1), None, None), limit(Scope::Key, "a", None, None, None)];
    assert_eq!(Rates::new(&twice).unwrap_err().to_string(), "the rate limit of key `a` is there twice");
    assert!(Rates::new(&[limit(Scope::Key, "", None, None, None)]).is_err());
    assert!(Rates::new(&[limit(Scope::Everything, "x", None, None, None)]).is_err());
    // A limit of zero lets nothing through.
    let mut none = Rates::new(&[limit(Scope::Key, "ann", Some(0), None, None)]).unwrap();
    assert_eq!(none.acquire(5, ANN, 1).unwrap_err().retry_after_ns, None);
}
