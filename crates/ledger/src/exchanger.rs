//! The one task of a ledger that talks with the store: one exchange at a time, for all requests that wait.

use crate::shared::Shared;
use crate::store::{Exchange, Granted, StoreError};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The most lines and receipts of an exchange, which bound a transaction.
const MAX_LINES: usize = 512;

/// The longest pause without a look at idle leases, and the longest between tries of a store that is down.
const SCAN_EVERY: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// The first pause after a failure; it doubles with each.
const BACKOFF: Duration = Duration::from_millis(100);

/// Tries of the last settlement before the end.
const LAST_TRIES: u32 = 3;

/// Seconds between deletions of what is older than the retention. Each deletes some thousand rows at most, so that the
/// tables stay bounded up to some hundred requests a second.
const PRUNE_SECONDS: i64 = 10;

pub(crate) struct Exchanger {
    shared: Arc<Shared>,
    session: Option<i64>,
    sequence: i64,
    failures: u32,
    scanned_at: i64,
    pruned_at: i64,
}

/// What a round has done.
enum Round {
    /// There was nothing to say.
    Quiet,
    /// All was said.
    Done,
    /// There is more to say.
    More,
}

impl Exchanger {
    pub(crate) fn new(shared: Arc<Shared>) -> Exchanger {
        Exchanger { shared, session: None, sequence: 0, failures: 0, scanned_at: 0, pruned_at: 0 }
    }

    /// Exchanges until the ledger closes.
    pub(crate) async fn run(mut self) {
        while !self.shared.closing.load(Ordering::Relaxed) {
            self.rounds().await;
            self.pause().await;
        }
        self.last().await;
    }

    /// Waits until there may be something to say.
    async fn pause(&self) {
        let shared = &self.shared;
        if self.failures > 0 {
            let pause = BACKOFF.saturating_mul(1 << (self.failures - 1).min(6)).min(MAX_BACKOFF);
            let closing = async {
                while !shared.closing.load(Ordering::Relaxed) {
                    shared.urgent.notified().await;
                }
            };
            // Requests that wait are refused by now; only the end is worth an early try.
            let _ = timeout(pause, closing).await;
            return;
        }
        tokio::select! {
            () = shared.urgent.notified() => {}
            () = sleep(SCAN_EVERY) => {}
            () = shared.wake.notified() => {
                let _ = timeout(shared.options.group, shared.urgent.notified()).await;
            }
        }
    }

    /// Says all that there is to say, or fails.
    async fn rounds(&mut self) {
        let now = (self.shared.options.clock)();
        if now != self.scanned_at {
            self.scanned_at = now;
            self.shared.book().scan(now);
        }
        loop {
            match self.round().await {
                Ok(Round::Quiet) => return,
                Ok(round) => {
                    self.succeeded();
                    if matches!(round, Round::Done) {
                        return;
                    }
                }
                Err(StoreError::SessionClosed(session)) if self.session == Some(session) => {
                    tracing::warn!(
                        session,
                        "the budgets' session was closed in the store; its leases are gone"
                    );
                    self.session = None;
                    self.shared.book().restart();
                }
                Err(error) => return self.failed(&error),
            }
        }
    }

    fn succeeded(&mut self) {
        if self.failures > 0 {
            tracing::info!(tries = self.failures, "the store of the budgets answers again");
        }
        self.failures = 0;
        self.shared.rounds.send_modify(|rounds| *rounds += 1);
    }

    fn failed(&mut self, error: &StoreError) {
        if self.failures == 0 {
            tracing::warn!(%error, "the store of the budgets does not answer; leases are spent, then requests refused");
        }
        self.failures = self.failures.saturating_add(1);
        self.shared.rounds.send_modify(|rounds| *rounds += 1);
    }

    /// One exchange, if there is anything to say or the leases must be renewed.
    async fn round(&mut self) -> Result<Round, StoreError> {
        let options = &self.shared.options;
        let (now, ttl) = ((options.clock)(), options.lease_seconds.max(1));
        let (lines, valid_until) = {
            let mut book = self.shared.book();
            (book.lines(MAX_LINES), book.valid_until())
        };
        let receipts: Vec<_> = self.shared.receipts().waiting.iter().take(MAX_LINES).cloned().collect();
        let renew = now >= valid_until.saturating_sub(ttl / 3 * 2);
        if lines.is_empty() && receipts.is_empty() && !renew {
            return Ok(Round::Quiet);
        }
        let prune = now - self.pruned_at >= PRUNE_SECONDS;
        let mut exchange = Exchange {
            session: 0,
            sequence: self.sequence + 1,
            now,
            expires: now.saturating_add(ttl),
            lines,
            receipts,
            prune_before: prune.then(|| now - i64::from(options.retention_days) * 86_400),
        };
        exchange.sort();
        match self.send(&mut exchange).await {
            Ok(granted) => Ok(self.take(&exchange, &granted)),
            Err(error) => {
                self.shared.book().fail(&exchange.lines, &error.to_string());
                Err(error)
            }
        }
    }

    /// Sends an exchange, in a new session if there is none.
    async fn send(&mut self, exchange: &mut Exchange) -> Result<Vec<Granted>, StoreError> {
        let (options, store) = (&self.shared.options, &self.shared.store);
        let late = |_| StoreError::Unavailable(format!("no answer within {:?}", options.store_timeout));
        let session = match self.session {
            Some(session) => session,
            None => {
                let opened = store.open_session(&options.replica, exchange.expires);
                let session = timeout(options.store_timeout, opened).await.map_err(late)??;
                self.session = Some(session);
                session
            }
        };
        self.sequence += 1;
        exchange.session = session;
        exchange.sequence = self.sequence;
        let sent = Arc::new(exchange.clone());
        let granted = timeout(options.store_timeout, store.exchange(sent)).await.map_err(late)??;
        if granted.len() != exchange.lines.len() {
            return Err(StoreError::Unavailable("the store answered another number of lines".to_owned()));
        }
        Ok(granted)
    }

    fn take(&mut self, exchange: &Exchange, granted: &[Granted]) -> Round {
        if exchange.prune_before.is_some() {
            self.pruned_at = exchange.now;
        }
        let more_receipts = {
            let mut queue = self.shared.receipts();
            queue.waiting.drain(..exchange.receipts.len());
            !queue.waiting.is_empty()
        };
        self.shared.book().apply(&exchange.lines, granted, exchange.expires);
        let full = exchange.lines.len() >= MAX_LINES || exchange.receipts.len() >= MAX_LINES && more_receipts;
        if full { Round::More } else { Round::Done }
    }

    /// Settles and returns everything, and ends the session.
    async fn last(&mut self) {
        for _ in 0..LAST_TRIES {
            self.shared.book().give_back_all();
            self.failures = 0;
            self.rounds().await;
            let clean = !self.shared.book().has_news() && self.shared.receipts().waiting.is_empty();
            if self.failures == 0 && clean {
                break;
            }
            sleep(BACKOFF).await;
        }
        if let (Some(session), 0) = (self.session, self.failures) {
            let closed = timeout(self.shared.options.store_timeout, self.shared.store.close_session(session));
            if !matches!(closed.await, Ok(Ok(()))) {
                tracing::warn!(session, "the budgets' session could not be ended");
            }
        }
    }
}
