//! A bounded queue in front of an audit chain: requests never wait for a disk.

use super::chain::{Chain, ChainOptions};
use super::line::{AuditError, Entry, Record};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep, timeout_at};

/// The most entries that wait: of at most some 6 KiB each, 12 MiB.
const MAX_QUEUED: usize = 2_048;

/// The most entries of one synchronization.
const MAX_GROUP: usize = 512;

/// For how long entries are collected before a synchronization.
const GROUP: Duration = Duration::from_millis(20);

/// The pause between tries of a disk that fails.
const RETRY: Duration = Duration::from_secs(1);

/// Counts for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditStats {
    /// Entries that there was no room for, since the start.
    pub lost: u64,
    /// Why the chain cannot be written, if it cannot.
    pub error: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    /// All that were lost.
    lost: AtomicU64,
    /// Those of them that a gap line tells.
    told: AtomicU64,
    error: Mutex<Option<String>>,
}

impl State {
    fn set_error(&self, error: Option<String>) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }
}

/// An audit chain behind a queue.
#[derive(Debug)]
pub struct AuditLog {
    queue: Sender<Entry>,
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl AuditLog {
    /// Opens a chain, which blocks shortly, and starts the task that writes it on the present runtime.
    ///
    /// # Errors
    /// As [`Chain::open`].
    pub fn open(options: ChainOptions, now: i64) -> Result<AuditLog, AuditError> {
        let chain = Chain::open(options.clone(), now)?;
        let (queue, entries) = channel(MAX_QUEUED);
        let state = Arc::new(State::default());
        let writer = Writer { options, chain: Some(chain), state: state.clone(), waiting: Vec::new() };
        Ok(AuditLog { queue, state, task: tokio::spawn(writer.run(entries)) })
    }

    /// Queues an entry. Returns whether there was room; if not, a gap line will tell how many were lost.
    pub fn try_append(&self, mut entry: Entry) -> bool {
        entry.bound();
        match self.queue.try_send(entry) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => {
                self.state.lost.fetch_add(1, Ordering::Relaxed);
                false
            }
        }
    }

    /// Counts for metrics.
    pub fn stats(&self) -> AuditStats {
        let error = self.state.error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        AuditStats { lost: self.state.lost.load(Ordering::Relaxed), error }
    }

    /// Writes all that waits. Returns whether it was written before `deadline`.
    pub async fn close(self, deadline: Instant) -> bool {
        drop(self.queue);
        let ended = timeout_at(deadline, self.task).await;
        let error = self.state.error.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        matches!(ended, Ok(Ok(()))) && !error
    }
}

/// The task of a log.
struct Writer {
    options: ChainOptions,
    /// Absent after an error, until the chain is opened anew.
    chain: Option<Chain>,
    state: Arc<State>,
    /// Records that are not written yet: one group.
    waiting: Vec<Record>,
}

impl Writer {
    async fn run(mut self, mut entries: Receiver<Entry>) {
        let mut group = Vec::new();
        while entries.recv_many(&mut group, MAX_GROUP).await > 0 {
            if group.len() < MAX_GROUP && !entries.is_closed() {
                sleep(GROUP).await;
                while group.len() < MAX_GROUP
                    && let Ok(entry) = entries.try_recv()
                {
                    group.push(entry);
                }
            }
            let time = group.first().map_or(0, |entry| entry.time);
            self.waiting.extend(self.gap(time));
            self.waiting.extend(group.drain(..).map(Record::Request));
            self = self.write(time, &entries).await;
        }
        let gap = self.gap(0);
        if gap.is_some() {
            self.waiting.extend(gap);
            let _ = self.write(0, &entries).await;
        }
    }

    /// A line for the entries that were lost since the last.
    fn gap(&self, time: i64) -> Option<Record> {
        let lost = self.state.lost.load(Ordering::Relaxed);
        let told = self.state.told.swap(lost, Ordering::Relaxed);
        (lost > told).then_some(Record::Gap { time, lost: lost - told })
    }

    /// Writes the group that waits; tries again while the disk fails. When the log is closed, one try must do.
    async fn write(mut self, time: i64, entries: &Receiver<Entry>) -> Writer {
        loop {
            let state = self.state.clone();
            let written = spawn_blocking(move || {
                let result = self.try_write(time);
                (self, result)
            });
            let result;
            (self, result) = match written.await {
                Ok(done) => done,
                // The runtime ends.
                Err(error) => std::panic::resume_unwind(Box::new(error.to_string())),
            };
            state.set_error(result.as_ref().err().map(ToString::to_string));
            let Err(error) = result else { return self };
            tracing::error!(%error, "the audit chain cannot be written");
            if entries.is_closed() {
                return self;
            }
            sleep(RETRY).await;
        }
    }

    fn try_write(&mut self, time: i64) -> Result<(), AuditError> {
        let mut chain = match self.chain.take() {
            Some(chain) => chain,
            None => Chain::open(self.options.clone(), time)?,
        };
        chain.append(&self.waiting, time)?;
        self.waiting.clear();
        self.chain = Some(chain);
        Ok(())
    }
}
