//! Where budgets, leases and receipts are kept, common to all replicas.

pub(crate) mod account;
pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "postgres")]
mod postgres_read;
mod rows;
mod schema;
pub mod sqlite;

pub use account::{Granted, Line};

use crate::receipt::{BucketTotal, GroupBy, Receipt, ReportRow};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A failed call of a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached, or did not do what was asked. The next call may succeed.
    #[error("{0}")]
    Unavailable(String),
    /// An operator took the session's leases back, or the store does not know it: a new session is needed.
    #[error("session {0} was closed in the store")]
    SessionClosed(i64),
    /// A later exchange of the session was already done: this one came late and changed nothing.
    #[error("an exchange came after a later one of its session, and was dropped")]
    Late,
    /// The store was written by a later version of the program.
    #[error(
        "{place} has version {found} of the ledger's tables; this program knows up to {known}: use a later one"
    )]
    TooNew {
        /// The file or database.
        place: String,
        /// The version in it.
        found: i64,
        /// The last version that this program knows.
        known: i64,
    },
    /// Leases that cannot be taken back yet: their replica may still spend them.
    #[error(
        "the leases of replica `{replica}` are valid until {until}; stop it, and take them back after that"
    )]
    Alive {
        /// The replica's name.
        replica: String,
        /// When the last of its leases expires.
        until: String,
    },
    /// A report with too many rows.
    #[error("the report has more than {0} rows: ask for fewer days or fewer groups")]
    TooManyRows(usize),
    /// A question that is not possible.
    #[error("{0}")]
    Invalid(String),
}

/// What a replica tells the store in one transaction: it settles its spending, returns and renews its leases, asks for
/// more, and appends receipts.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The session, from [`Store::open_session`].
    pub session: i64,
    /// Number of the exchange in its session, from 1. One that does not exceed the last is not done.
    pub sequence: i64,
    /// The time, in Unix seconds.
    pub now: i64,
    /// Until when the session's leases are valid, in Unix seconds.
    pub expires: i64,
    /// At most one line for each bucket and period, in the order of [`Exchange::sort`], which keeps stores that lock
    /// rows from deadlocks.
    pub lines: Vec<Line>,
    /// Receipts with their numbers: a number that the session has already used is not appended again.
    pub receipts: Vec<(i64, Receipt)>,
    /// Receipts and days before this time are deleted, if it is given, some thousands at a time.
    pub prune_before: Option<i64>,
}

impl Exchange {
    /// Sorts the lines into the order in which stores lock rows.
    pub fn sort(&mut self) {
        self.lines.sort_by(|a, b| (&a.bucket, a.period).cmp(&(&b.bucket, b.period)));
    }
}

/// The question of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportQuery {
    /// The first second, Unix.
    pub from: i64,
    /// The first second after it, Unix.
    pub to: i64,
    /// What the rows are by; none is one row of all.
    pub group_by: Vec<GroupBy>,
}

/// The answer of a store, as a future.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A common account of all replicas. Each call is one transaction: done whole or not at all. A future may be dropped at
/// any time; what it asked for may then be done or not, and the session's next exchange says what the replica holds.
pub trait Store: Send + Sync {
    /// A new session of a replica, whose leases are valid until `expires` at first.
    fn open_session(&self, replica: &str, expires: i64) -> Answer<'_, i64>;

    /// One exchange; a [`Granted`] for each line, in their order.
    fn exchange(&self, exchange: Arc<Exchange>) -> Answer<'_, Vec<Granted>>;

    /// Ends a session that holds nothing. Leases that it still has stay leased, and count as spent.
    fn close_session(&self, session: i64) -> Answer<'_, ()>;

    /// Gives back to the buckets what dead sessions of a replica had leased and not reported as spent. Returns the
    /// number of leases. The sums are the customer's loss otherwise, and may be the operator's overspending if taken
    /// back, because what a killed process spent last is known to nobody.
    ///
    /// # Errors
    /// [`StoreError::Alive`] before the leases have expired.
    fn reclaim(&self, replica: &str, now: i64) -> Answer<'_, u64>;

    /// The present period of every bucket that was ever spent from, at the time `now`.
    fn totals(&self, now: i64) -> Answer<'_, Vec<BucketTotal>>;

    /// The sums of receipts, ordered by group.
    fn report(&self, query: ReportQuery) -> Answer<'_, Vec<ReportRow>>;
}
