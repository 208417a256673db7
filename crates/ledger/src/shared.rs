//! What a ledger, its reservations and its task share: options, the book behind its lock, queues and signals.

use crate::book::Book;
use crate::receipt::Receipt;
use crate::store::Store;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// A source of the time in Unix seconds.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// How a replica keeps its ledger.
#[derive(Clone)]
pub struct Options {
    /// The replica's name, by which an operator finds the leases of a process that died.
    pub replica: String,
    /// The clock of the exchanges.
    pub clock: Clock,
    /// For how long leases are valid without an exchange: the longest outage of the store in which they can be spent, and
    /// the time after which those of a dead replica can be taken back.
    pub lease_seconds: i64,
    /// The most that one call of the store may take.
    pub store_timeout: Duration,
    /// For how long settlements and receipts are collected. Requests that wait for a lease do not wait for this.
    pub group: Duration,
    /// Whether attempts that cost no money pass caps on tokens and requests while the store is down.
    pub free_when_down: bool,
    /// For how many days receipts are kept.
    pub retention_days: u32,
}

impl Options {
    /// The defaults: leases of an hour, 2 s for the store, groups of 20 ms, receipts of 400 days; what costs nothing is
    /// served while the store is down.
    pub fn new(replica: &str, clock: Clock) -> Options {
        Options {
            replica: replica.to_owned(),
            clock,
            lease_seconds: 3600,
            store_timeout: Duration::from_secs(2),
            group: Duration::from_millis(20),
            free_when_down: true,
            retention_days: 400,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("replica", &self.replica).finish_non_exhaustive()
    }
}

/// The most receipts that wait for the store. Further ones are dropped and counted.
pub const MAX_QUEUED_RECEIPTS: usize = 8_192;

#[derive(Debug, Default)]
pub(crate) struct ReceiptQueue {
    pub(crate) waiting: VecDeque<(i64, Receipt)>,
    pub(crate) next: i64,
}

/// What the ledger, its reservations and its task share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) book: Mutex<Book>,
    pub(crate) receipts: Mutex<ReceiptQueue>,
    /// Something can be settled.
    pub(crate) wake: Notify,
    /// A request waits for a lease, or the ledger closes.
    pub(crate) urgent: Notify,
    /// The number of exchanges that were answered or failed.
    pub(crate) rounds: watch::Sender<u64>,
    pub(crate) closing: AtomicBool,
    pub(crate) abandoned: AtomicU64,
    pub(crate) dropped_receipts: AtomicU64,
}

impl Shared {
    /// The book. A panic inside leaves no half-made change that could overspend: bounds are reserved after all checks.
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn receipts(&self) -> MutexGuard<'_, ReceiptQueue> {
        self.receipts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
