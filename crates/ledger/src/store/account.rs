//! The arithmetic of leases: what a store does with a line of an exchange. Every store does the same, in one transaction.
//!
//! A replica names absolute sums, never differences: all that it has spent, and the level up to which it may spend. So a
//! repeated or lost exchange changes nothing twice. For a bucket's period,
//!
//! ```text
//! spent (all replicas) + leased (granted to a replica and not yet spent) <= limit
//! ```
//!
//! holds after every grant. Only spending that exceeds its own reservation can break it; then nothing more is granted.

use crate::bucket::Bucket;
use std::sync::Arc;

/// What a replica says about one of its accounts, a bucket in a period.
#[derive(Clone, Debug)]
pub struct Line {
    /// The place of the bucket in the replica's book, which the store has no use for.
    pub(crate) entry: u32,
    /// The bucket.
    pub bucket: Arc<Bucket>,
    /// The number of the period.
    pub period: i64,
    /// The account's number in the session. The sums below are those of this number.
    pub account: i64,
    /// The cap in the replica's configuration.
    pub limit: i64,
    /// All that was spent from the account.
    pub spent: i64,
    /// The part of it that is only possibly billed.
    pub uncertain: i64,
    /// The level of `spent` up to which the replica may spend. What the store granted beyond it is returned.
    pub hold: i64,
    /// What the smallest waiting request lacks; 0 if none waits.
    pub need: i64,
    /// What all waiting requests lack.
    pub wanted: i64,
    /// Whether to lease ahead of need.
    pub top_up: bool,
}

/// What the store answers to a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// The level of `spent` up to which the replica may spend.
    pub hold: i64,
    /// Settled spending of all replicas.
    pub spent: i64,
    /// What all replicas have leased and not spent, this grant included.
    pub leased: i64,
}

/// The store's row of a bucket's period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BucketRow {
    pub(crate) spent: i64,
    pub(crate) uncertain: i64,
    pub(crate) leased: i64,
}

/// The store's row of an account of a session. `hold` is never below `spent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseRow {
    pub(crate) hold: i64,
    pub(crate) spent: i64,
    pub(crate) uncertain: i64,
}

impl LeaseRow {
    /// What is granted and not spent.
    pub(crate) fn open(&self) -> i64 {
        self.hold - self.spent
    }
}

/// A lease ahead of need is this part of what is left of the bucket: 2 %.
const SHARE: i64 = 50;

/// Settles, returns and grants: one line of an exchange.
pub(crate) fn apply(bucket: &mut BucketRow, lease: &mut LeaseRow, line: &Line) -> Granted {
    let open_before = lease.open();
    let spent = line.spent.max(lease.spent);
    let uncertain = line.uncertain.max(lease.uncertain);
    bucket.spent = bucket.spent.saturating_add(spent - lease.spent);
    bucket.uncertain = bucket.uncertain.saturating_add(uncertain - lease.uncertain);
    let mut hold = lease.hold.min(line.hold).max(spent);
    let leased = bucket.leased - open_before + (hold - spent);
    let left = i128::from(line.limit) - i128::from(bucket.spent) - i128::from(leased);
    let left = i64::try_from(left).unwrap_or(if left > 0 { i64::MAX } else { 0 }).max(0);
    let grant = grant(left, line).min(i64::MAX - hold);
    hold += grant;
    bucket.leased = leased + grant;
    *lease = LeaseRow { hold, spent, uncertain };
    Granted { hold, spent: bucket.spent, leased: bucket.leased }
}

/// What to lease of the rest: nothing if not even the smallest waiting request fits, or else what all lack and at least
/// 2 % of the rest. So leases shrink with the rest, to single requests in the end.
fn grant(left: i64, line: &Line) -> i64 {
    let waits = line.need > 0;
    if (!waits && !line.top_up) || left < line.need {
        return 0;
    }
    (left / SHARE).max(if waits { line.wanted.max(line.need) } else { 0 }).min(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{Scope, Unit};
    use crate::calendar::Window;

    fn line(limit: i64, spent: i64, hold: i64, need: i64) -> Line {
        let bucket =
            Bucket { scope: Scope::Key, name: "k".into(), window: Window::Day, unit: Unit::Requests };
        let top_up = false;
        Line {
            entry: 0,
            bucket: Arc::new(bucket),
            period: 1,
            account: 1,
            limit,
            spent,
            uncertain: 0,
            hold,
            need,
            wanted: need,
            top_up,
        }
    }

    #[test]
    fn leases_shrink_with_what_is_left() {
        let (mut bucket, mut lease) = (BucketRow::default(), LeaseRow::default());
        assert_eq!(apply(&mut bucket, &mut lease, &line(1_000, 0, 0, 1)).hold, 20);
        assert_eq!(apply(&mut bucket, &mut lease, &line(1_000, 20, 20, 1)).hold, 39);
        assert_eq!(apply(&mut bucket, &mut lease, &line(1_000, 960, 960, 1)).hold, 961);
        assert_eq!(apply(&mut bucket, &mut lease, &line(1_000, 961, 961, 39)).hold, 1_000);
        assert_eq!(apply(&mut bucket, &mut lease, &line(1_000, 961, 1_000, 40)).hold, 1_000);
    }

    #[test]
    fn what_is_lost_with_an_answer_comes_back_with_the_next_line() {
        let (mut bucket, mut lease) = (BucketRow::default(), LeaseRow::default());
        apply(&mut bucket, &mut lease, &line(1_000, 0, 0, 100));
        // The replica never heard of the 100: it still holds nothing, and asks again.
        let granted = apply(&mut bucket, &mut lease, &line(1_000, 0, 0, 100));
        assert_eq!((granted.hold, granted.leased), (100, 100));
    }

    #[test]
    fn spending_beyond_the_lease_is_recorded_and_closes_the_bucket() {
        let (mut bucket, mut lease) = (BucketRow::default(), LeaseRow::default());
        apply(&mut bucket, &mut lease, &line(100, 0, 0, 60));
        let granted = apply(&mut bucket, &mut lease, &line(100, 150, 60, 1));
        assert_eq!(granted, Granted { hold: 150, spent: 150, leased: 0 });
        let huge = apply(&mut bucket, &mut lease, &line(i64::MAX, i64::MAX, i64::MAX, i64::MAX));
        assert_eq!((huge.hold, huge.spent), (i64::MAX, i64::MAX));
    }
}
