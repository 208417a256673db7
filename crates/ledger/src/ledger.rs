//! The ledger of a replica: its book of leases, its receipts, and the task that exchanges both with the store.

use crate::book::{Asked, Book, Held, Short};
use crate::bucket::{Bounds, Cap, CapError, Cost, Subjects};
use crate::exchanger::Exchanger;
use crate::receipt::Receipt;
use crate::refused::Refused;
use crate::shared::{MAX_QUEUED_RECEIPTS, Options, Shared};
use crate::store::{Store, StoreError};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

/// Counts for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerStats {
    /// Reservations that were dropped unsettled, and count at their bound.
    pub abandoned: u64,
    /// Receipts that were dropped because the store was down for long.
    pub dropped_receipts: u64,
    /// Receipts that wait for the store.
    pub queued_receipts: usize,
    /// Since when the store has not answered, in Unix seconds.
    pub down_since: Option<i64>,
    /// Buckets and periods in memory.
    pub accounts: usize,
}

/// Budgets and receipts of a replica.
pub struct Ledger {
    shared: Arc<Shared>,
    /// Absent once the ledger is closed.
    task: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        if let Some(task) = self.take_task() {
            task.abort();
        }
    }
}

impl Ledger {
    /// Starts the ledger's task on the present runtime. The store need not answer yet: until it does, nothing that a cap
    /// is on is let through.
    ///
    /// # Errors
    /// If a cap is not possible.
    pub fn start(options: Options, store: Arc<dyn Store>, caps: &[Cap]) -> Result<Ledger, CapError> {
        let shared = Arc::new(Shared {
            book: Mutex::new(Book::new(caps, options.free_when_down)?),
            options,
            store,
            receipts: Mutex::default(),
            wake: Notify::new(),
            urgent: Notify::new(),
            rounds: watch::Sender::new(0),
            closing: AtomicBool::new(false),
            abandoned: AtomicU64::new(0),
            dropped_receipts: AtomicU64::new(0),
        });
        let task = tokio::spawn(Exchanger::new(shared.clone()).run());
        Ok(Ledger { shared, task: Mutex::new(Some(task)) })
    }

    /// Replaces the caps; running attempts and counters go on.
    ///
    /// # Errors
    /// If a cap is not possible; the former caps then stay.
    pub fn set_caps(&self, caps: &[Cap]) -> Result<(), CapError> {
        self.shared.book().set_caps(caps)?;
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Reserves the bounds of an attempt out of what is leased, without waiting.
    ///
    /// # Errors
    /// [`Short::Lease`] where [`reserve`](Self::reserve) would wait for the store.
    pub fn try_reserve(
        &self,
        now: i64,
        subjects: Subjects<'_>,
        bounds: Bounds,
    ) -> Result<Reservation, Short> {
        self.attempt(now, subjects, bounds, &mut Asked::default())
    }

    /// Reserves the bounds of an attempt, at the time `now` in Unix seconds. Waits only where the lease does not suffice,
    /// for at most one exchange with the store unless others take what it grants, and not beyond `deadline`.
    ///
    /// # Errors
    /// If a cap has no room, a price is not known, or the store does not answer.
    pub async fn reserve(
        &self,
        now: i64,
        subjects: Subjects<'_>,
        bounds: Bounds,
        deadline: Instant,
    ) -> Result<Reservation, Refused> {
        let mut asked = Asked::default();
        match self.attempt(now, subjects, bounds, &mut asked) {
            Ok(reservation) => return Ok(reservation),
            Err(Short::Refused(refused)) => return Err(refused),
            Err(Short::Lease) => {}
        }
        let mut rounds = self.shared.rounds.subscribe();
        loop {
            // Asked again after subscribing, so that no answer is missed in between.
            let now = now.max((self.shared.options.clock)());
            match self.attempt(now, subjects, bounds, &mut asked) {
                Ok(reservation) => return Ok(reservation),
                Err(Short::Refused(refused)) => return Err(refused),
                Err(Short::Lease) => self.shared.urgent.notify_one(),
            }
            if self.is_closed() {
                return Err(Refused::Closed);
            }
            if timeout_at(deadline, rounds.changed()).await.is_err() {
                return Err(Refused::Deadline);
            }
        }
    }

    fn attempt(
        &self,
        now: i64,
        subjects: Subjects<'_>,
        bounds: Bounds,
        asked: &mut Asked,
    ) -> Result<Reservation, Short> {
        let (held, low) = self.shared.book().reserve(now, subjects, bounds, asked)?;
        if low {
            self.shared.wake.notify_one();
        }
        Ok(Reservation { shared: self.shared.clone(), held: Some(held), bounds })
    }

    /// Queues a receipt for the store. Returns whether there was room.
    pub fn add_receipt(&self, mut receipt: Receipt) -> bool {
        receipt.bound();
        let mut queue = self.shared.receipts();
        if queue.waiting.len() >= MAX_QUEUED_RECEIPTS {
            drop(queue);
            self.shared.dropped_receipts.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        queue.next += 1;
        let number = queue.next;
        queue.waiting.push_back((number, receipt));
        drop(queue);
        self.shared.wake.notify_one();
        true
    }

    /// Counts for metrics.
    pub fn stats(&self) -> LedgerStats {
        let queued_receipts = self.shared.receipts().waiting.len();
        let book = self.shared.book();
        LedgerStats {
            abandoned: self.shared.abandoned.load(Ordering::Relaxed),
            dropped_receipts: self.shared.dropped_receipts.load(Ordering::Relaxed),
            queued_receipts,
            down_since: book.down_since(),
            accounts: book.accounts(),
        }
    }

    /// The store, for totals and reports.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// Settles everything, returns all leases and ends the session; from then on, nothing under a cap is let through. What
    /// attempts that still run have reserved stays leased, and counts as spent.
    ///
    /// # Errors
    /// If the store did not take it before `deadline`: then nothing is lost but the leases, which count as spent.
    pub async fn close(&self, deadline: Instant) -> Result<(), StoreError> {
        self.shared.closing.store(true, Ordering::Relaxed);
        self.shared.urgent.notify_one();
        let ended = match self.take_task() {
            Some(task) => matches!(timeout_at(deadline, task).await, Ok(Ok(()))),
            None => true,
        };
        let left = self.shared.book().has_news() || !self.shared.receipts().waiting.is_empty();
        if ended && !left {
            return Ok(());
        }
        Err(StoreError::Unavailable("the store did not take the last settlements".to_owned()))
    }

    fn take_task(&self) -> Option<JoinHandle<()>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn is_closed(&self) -> bool {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.closing.load(Ordering::Relaxed) || task.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

/// The right to one attempt. Dropped without a word, it counts at its bound, as possibly billed: nobody knows whether the
/// upstream has done the work.
pub struct Reservation {
    shared: Arc<Shared>,
    held: Option<Held>,
    bounds: Bounds,
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

impl Reservation {
    /// What was reserved.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Settles by the receipt. A cost above the bounds is recorded, and may close the caps.
    pub fn settle(mut self, cost: Cost) {
        self.end(&cost, false);
    }

    /// Settles at the bounds, as possibly billed: the request was sent, and its answer lost.
    pub fn settle_unknown(mut self) {
        let cost = self.bounds.as_cost();
        self.end(&cost, true);
    }

    /// Frees what was reserved: nothing was sent, or the upstream refused it.
    pub fn release(mut self) {
        self.end(&Cost::default(), false);
    }

    fn end(&mut self, cost: &Cost, uncertain: bool) {
        if let Some(held) = self.held.take() {
            self.shared.book().settle(held, cost, uncertain);
            self.shared.wake.notify_one();
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.held.is_some() {
            self.shared.abandoned.fetch_add(1, Ordering::Relaxed);
            let cost = self.bounds.as_cost();
            self.end(&cost, true);
        }
    }
}
