//! A replica's own view of a bucket in one period: what it may spend, has spent and has reserved.

use crate::bucket::{Bucket, Cap, Unit};
use crate::refused::BudgetFull;
use crate::store::{Granted, Line};
use std::sync::Arc;

/// What the store said last of a bucket's period.
#[derive(Clone, Copy, Debug)]
struct Known {
    granted: Granted,
    /// What was left to lease.
    left: i64,
    /// When, in Unix seconds.
    at: i64,
}

/// A bucket in one period, on this replica. `hold`, `spent` and `uncertain` only grow, within a session of the store.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) period: i64,
    /// Names the account in the store, and is not used again when the account is forgotten: sums start anew with it.
    number: i64,
    /// The level of `spent` up to which the replica may spend.
    hold: i64,
    spent: i64,
    uncertain: i64,
    /// The bounds of running attempts.
    reserved: i64,
    /// Running attempts, those with a bound of zero included.
    holders: u32,
    /// The `spent` that the store knows.
    acked: i64,
    /// What the smallest waiting request lacks, and all together.
    need: i64,
    wanted: i64,
    top_up: bool,
    /// The last lease, by which the next is asked for ahead of need.
    chunk: i64,
    /// The last reservation, in Unix seconds.
    used_at: i64,
    known: Option<Known>,
    /// Whether the store holds anything for this account that it must be told to free.
    synced: bool,
}

/// For how long a lease is kept without a request, in seconds.
const IDLE_SECONDS: i64 = 10;

/// For how many seconds a refusal of the store is believed. Leases that other replicas return are seen after it.
const BELIEVED_SECONDS: i64 = 1;

/// A lease is asked for ahead of need while it is at least this many times the request.
const AHEAD: i64 = 8;

impl Account {
    pub(crate) fn new(period: i64, number: i64, now: i64) -> Account {
        Account {
            period,
            number,
            hold: 0,
            spent: 0,
            uncertain: 0,
            reserved: 0,
            holders: 0,
            acked: 0,
            need: 0,
            wanted: 0,
            top_up: false,
            chunk: 0,
            used_at: now,
            known: None,
            synced: true,
        }
    }

    /// What can be reserved without asking the store; below zero after spending beyond a reservation.
    pub(crate) fn available(&self) -> i64 {
        self.hold.saturating_sub(self.spent).saturating_sub(self.reserved)
    }

    /// What the lease lacks for a bound; 0 or less if it suffices.
    pub(crate) fn short_of(&self, bound: i64) -> i64 {
        bound.saturating_sub(self.available())
    }

    /// Whether the store is known not to have this much left.
    pub(crate) fn exhausted(&self, lacking: i64, now: i64) -> bool {
        self.known.is_some_and(|known| {
            known.left < lacking && now.saturating_sub(known.at).abs() <= BELIEVED_SECONDS
        })
    }

    pub(crate) fn ask(&mut self, lacking: i64) {
        self.need = if self.need == 0 { lacking } else { self.need.min(lacking) };
        self.wanted = self.wanted.saturating_add(lacking);
    }

    pub(crate) fn ask_nothing(&mut self) {
        self.need = 0;
        self.wanted = 0;
        self.top_up = false;
    }

    /// Reserves a bound that [`short_of`](Self::short_of) has room for. Returns whether the lease runs low.
    pub(crate) fn reserve(&mut self, bound: i64, now: i64) -> bool {
        self.reserved += bound;
        self.holders += 1;
        self.used_at = now;
        let low = self.available() < self.chunk / 2 && self.chunk >= bound.saturating_mul(AHEAD);
        let asks = low && !self.top_up && !self.exhausted(1, now);
        self.top_up |= asks;
        asks
    }

    /// Ends a reservation: its bound is free again, and what was spent is added.
    pub(crate) fn end(&mut self, bound: i64, spent: i64, uncertain: bool) {
        self.reserved -= bound;
        self.holders -= 1;
        self.spent = self.spent.saturating_add(spent);
        if uncertain {
            self.uncertain = self.uncertain.saturating_add(spent);
        }
    }

    pub(crate) fn unsettled(&self) -> i64 {
        self.spent - self.acked
    }

    /// Whether nothing is lost if the account is forgotten.
    pub(crate) fn is_done(&self) -> bool {
        self.holders == 0 && self.synced && self.unsettled() == 0 && self.hold <= self.spent && self.need == 0
    }

    /// Returns what is leased beyond running requests, if it was idle or must go. Returns whether it did.
    pub(crate) fn give_back(&mut self, now: i64, must: bool) -> bool {
        let idle = now.saturating_sub(self.used_at) >= IDLE_SECONDS;
        let used = self.spent.saturating_add(self.reserved);
        if !(idle || must) || self.hold <= used {
            return false;
        }
        self.hold = used;
        self.chunk = 0;
        self.synced = false;
        true
    }

    /// Whether an exchange has something to say of this account.
    pub(crate) fn has_news(&self) -> bool {
        self.unsettled() > 0 || self.need > 0 || self.top_up || !self.synced
    }

    /// The line of the next exchange; its needs are then asked for.
    pub(crate) fn line(&mut self, entry: u32, bucket: &Arc<Bucket>, limit: i64) -> Line {
        let line = Line {
            entry,
            bucket: bucket.clone(),
            period: self.period,
            account: self.number,
            limit,
            spent: self.spent,
            uncertain: self.uncertain,
            hold: self.hold.max(self.spent),
            need: self.need,
            wanted: self.wanted,
            top_up: self.top_up,
        };
        self.ask_nothing();
        // Until the answer is here, what the store holds is not known.
        self.synced = false;
        line
    }

    /// Whether a line is of this account.
    pub(crate) fn wrote(&self, line: &Line) -> bool {
        self.number == line.account
    }

    /// Takes the answer to a line.
    pub(crate) fn granted(&mut self, line: &Line, granted: Granted, now: i64) {
        self.chunk = (granted.hold - line.hold).max(0);
        self.hold = granted.hold;
        self.acked = self.acked.max(line.spent);
        self.synced = true;
        let left = i128::from(line.limit) - i128::from(granted.spent) - i128::from(granted.leased);
        let left = i64::try_from(left).unwrap_or(0);
        self.known = Some(Known { granted, left, at: now });
    }

    /// Forgets the leases of a session that was closed; what the store does not know is told in the next session.
    pub(crate) fn restart(&mut self) {
        self.spent -= self.acked;
        self.uncertain = self.uncertain.min(self.spent);
        self.hold = 0;
        self.acked = 0;
        self.chunk = 0;
        self.known = None;
        self.synced = true;
    }

    pub(crate) fn believe_nothing(&mut self) {
        self.known = None;
    }

    /// What is known of the bucket, for a refusal.
    pub(crate) fn full(&self, cap: &Cap, needed: i64) -> BudgetFull {
        let unsettled = self.unsettled();
        let (spent, leased) = self.known.map_or((0, 0), |known| (known.granted.spent, known.granted.leased));
        BudgetFull {
            bucket: cap.bucket.clone(),
            used: spent.saturating_add(unsettled),
            reserved: leased.saturating_sub(unsettled).saturating_add((-self.available()).max(0)),
            limit: cap.limit,
            needed,
            resets_at: cap.bucket.window.end_of(self.period),
        }
    }
}

/// The bound of an attempt in a unit; `None` for an unknown price.
pub(crate) fn bound_of(bounds: &crate::bucket::Bounds, unit: Unit) -> Option<i64> {
    if unit == Unit::Money && bounds.money.is_none() { None } else { Some(bounds.as_cost().of(unit)) }
}
