//! A store in memory: for one process that may forget everything when it ends, and for tests.

use super::account::{BucketRow, LeaseRow, apply};
use super::rows::{sum_report, totals_of};
use super::{Answer, Exchange, Granted, ReportQuery, Store, StoreError};
use crate::bucket::Bucket;
use crate::calendar::timestamp;
use crate::receipt::{BucketTotal, Receipt, ReportRow};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// The most receipts that are kept; the oldest go first.
const MAX_RECEIPTS: usize = 100_000;

#[derive(Debug)]
struct SessionRow {
    replica: String,
    sequence: i64,
    expires: i64,
    last_receipt: i64,
}

type AccountKey = (Arc<Bucket>, i64);

/// The tables, and what one transaction does to them.
#[derive(Debug, Default)]
struct Tables {
    next_session: i64,
    sessions: BTreeMap<i64, SessionRow>,
    buckets: BTreeMap<AccountKey, (i64, BucketRow)>,
    /// By session and number of the account.
    leases: BTreeMap<(i64, i64), (AccountKey, LeaseRow)>,
    receipts: VecDeque<Receipt>,
}

/// A [`Store`] in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
}

impl Tables {
    fn exchange(&mut self, exchange: &Exchange) -> Result<Vec<Granted>, StoreError> {
        let session = exchange.session;
        let row = self.sessions.get_mut(&session).ok_or(StoreError::SessionClosed(session))?;
        if exchange.sequence <= row.sequence {
            return Err(StoreError::Late);
        }
        row.sequence = exchange.sequence;
        row.expires = exchange.expires;
        for (number, receipt) in &exchange.receipts {
            if *number > row.last_receipt {
                row.last_receipt = *number;
                self.receipts.push_back(receipt.clone());
            }
        }
        let excess = self.receipts.len().saturating_sub(MAX_RECEIPTS);
        self.receipts.drain(..excess);
        if let Some(before) = exchange.prune_before {
            self.receipts.retain(|receipt| receipt.time >= before);
        }
        let granted = exchange.lines.iter().map(|line| {
            let key = (line.bucket.clone(), line.period);
            let (limit, bucket) = self.buckets.entry(key.clone()).or_default();
            *limit = line.limit;
            let lease = self.leases.entry((session, line.account));
            apply(bucket, &mut lease.or_insert_with(|| (key, LeaseRow::default())).1, line)
        });
        let granted = granted.collect();
        if let Some(before) = exchange.prune_before {
            let old = |(bucket, period): &AccountKey| {
                bucket.window.end_of(*period).is_some_and(|end| end <= before)
            };
            self.buckets.retain(|key, _| !old(key));
            self.leases.retain(|_, (key, _)| !old(key));
        }
        Ok(granted)
    }

    fn reclaim(&mut self, replica: &str, now: i64) -> Result<u64, StoreError> {
        let of_replica = |row: &&SessionRow| row.replica == replica;
        let expired: Vec<i64> = self
            .sessions
            .iter()
            .filter(|(_, row)| row.replica == replica && row.expires <= now)
            .map(|(session, _)| *session)
            .collect();
        let until = self.sessions.values().filter(of_replica).map(|row| row.expires).max();
        if let (true, Some(until)) = (expired.is_empty(), until) {
            return Err(StoreError::Alive { replica: replica.to_owned(), until: timestamp(until) });
        }
        let mut count = 0;
        for session in expired {
            self.sessions.remove(&session);
            self.leases.retain(|(owner, _), (key, lease)| {
                if *owner == session && lease.open() > 0 {
                    count += 1;
                    if let Some((_, bucket)) = self.buckets.get_mut(key) {
                        bucket.leased -= lease.open();
                    }
                }
                *owner != session
            });
        }
        Ok(count)
    }

    fn close(&mut self, session: i64) {
        self.leases.retain(|(owner, _), (_, lease)| *owner != session || lease.open() > 0);
        if !self.leases.keys().any(|(owner, _)| *owner == session) {
            self.sessions.remove(&session);
        }
    }

    fn totals(&self, now: i64) -> Vec<BucketTotal> {
        let lost = |wanted: &AccountKey| {
            let dead = self.leases.iter().filter(|((session, _), (key, _))| {
                key == wanted && self.sessions.get(session).is_none_or(|row| row.expires <= now)
            });
            dead.map(|(_, (_, lease))| lease.open()).sum()
        };
        let rows = self.buckets.iter().map(|(key, (limit, row))| BucketTotal {
            bucket: (*key.0).clone(),
            period: key.1,
            limit: *limit,
            spent: row.spent,
            uncertain: row.uncertain,
            leased: row.leased,
            lost: lost(key),
        });
        totals_of(rows.collect(), now)
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    fn with<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Tables) -> Result<T, StoreError>,
    ) -> Answer<'_, T> {
        // The tables are consistent after each statement that can panic.
        let result = act(&mut self.tables.lock().unwrap_or_else(PoisonError::into_inner));
        Box::pin(std::future::ready(result))
    }
}

impl Store for MemoryStore {
    fn open_session(&self, replica: &str, expires: i64) -> Answer<'_, i64> {
        self.with(|tables| {
            tables.next_session += 1;
            let row = SessionRow { replica: replica.to_owned(), sequence: 0, expires, last_receipt: 0 };
            tables.sessions.insert(tables.next_session, row);
            Ok(tables.next_session)
        })
    }

    fn exchange(&self, exchange: Arc<Exchange>) -> Answer<'_, Vec<Granted>> {
        self.with(|tables| tables.exchange(&exchange))
    }

    fn close_session(&self, session: i64) -> Answer<'_, ()> {
        self.with(|tables| {
            tables.close(session);
            Ok(())
        })
    }

    fn reclaim(&self, replica: &str, now: i64) -> Answer<'_, u64> {
        self.with(|tables| tables.reclaim(replica, now))
    }

    fn totals(&self, now: i64) -> Answer<'_, Vec<BucketTotal>> {
        self.with(|tables| Ok(tables.totals(now)))
    }

    fn report(&self, query: ReportQuery) -> Answer<'_, Vec<ReportRow>> {
        self.with(|tables| sum_report(tables.receipts.iter(), &query))
    }
}
