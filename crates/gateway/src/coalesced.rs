//! Equal requests at the same time share one answer: the bytes of an answer under way, read by any number of clients, each
//! at its own pace.
//!
//! The work belongs to nobody: it goes on while there is a reader, and ends with the last one.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use ledger::Amount;
use tokio::sync::Notify;

use crate::cache::{Answers, KeptAnswer, Key, PART};

/// Answers under way at once; further requests are answered by themselves.
const MOST: usize = 4_096;
/// Unread bytes that an answer which cannot be kept runs ahead of its slowest reader.
const AHEAD: usize = 256 << 10;
/// For the slowest reader of such an answer to take some.
const STALL: Duration = Duration::from_secs(60);

/// Kept answers, and those under way.
pub(crate) struct Cache {
    inner: Mutex<Inner>,
    /// Bytes of answers under way.
    under_way: Arc<AtomicUsize>,
    began: Instant,
}

struct Inner {
    answers: Answers,
    running: HashMap<Key, Arc<Coalesced>>,
}

/// What a request finds.
pub(crate) enum Found {
    /// A kept answer.
    Hit(Arc<KeptAnswer>),
    /// An equal request under way.
    Shared(Reader),
    /// Nothing: the request is to be answered, and its answer read.
    Miss(Lead, Reader),
    /// Too much is under way to share.
    Busy,
}

impl Cache {
    /// An empty cache of at most `bytes`, each answer for `keep`.
    pub(crate) fn new(bytes: usize, keep: Duration) -> Cache {
        let inner = Inner { answers: Answers::new(bytes, keep), running: HashMap::new() };
        Cache { inner: Mutex::new(inner), under_way: Arc::default(), began: Instant::now() }
    }

    /// Takes other bounds, and forgets everything: another configuration may answer otherwise. Answers under way are read
    /// to their end, and not kept.
    pub(crate) fn reset(&self, bytes: usize, keep: Duration) {
        let mut inner = self.inner();
        inner.answers = Answers::new(bytes, keep);
        inner.running.clear();
    }

    /// Time since the start.
    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks a request up at a time since the start.
    pub(crate) fn find(self: &Arc<Self>, key: &Key, now: Duration) -> Found {
        let mut inner = self.inner();
        if let Some(answer) = inner.answers.get(key, now) {
            return Found::Hit(answer);
        }
        if let Some(running) = inner.running.get(key) {
            return Found::Shared(running.read());
        }
        let limit = inner.answers.limit();
        if inner.running.len() >= MOST || self.under_way.load(Ordering::Relaxed) >= limit {
            return Found::Busy;
        }
        let answer = Arc::new(Coalesced::new(self.under_way.clone()));
        inner.running.insert(key.clone(), answer.clone());
        let reader = answer.read();
        drop(inner);
        Found::Miss(Lead { cache: self.clone(), key: key.clone(), answer, limit }, reader)
    }

    /// Takes an answer from those under way; whether it was one of them.
    fn retire(&self, key: &Key, answer: &Arc<Coalesced>) -> bool {
        let mut inner = self.inner();
        let is_it = inner.running.get(key).is_some_and(|running| Arc::ptr_eq(running, answer));
        if is_it {
            inner.running.remove(key);
        }
        is_it
    }
}

/// An answer under way.
struct Coalesced {
    state: Mutex<State>,
    under_way: Arc<AtomicUsize>,
    /// Something came, or the end.
    grown: Notify,
    /// Somebody has read, or left.
    taken: Notify,
}

#[derive(Default)]
struct State {
    head: Option<(StatusCode, HeaderMap)>,
    chunks: VecDeque<Bytes>,
    bytes: usize,
    /// Number of the first chunk: more than 0 where some were dropped.
    first: u64,
    /// Whether everything is kept to the end.
    is_cut: bool,
    ended: Option<Ending>,
    /// The next chunk of each reader.
    readers: BTreeMap<u64, u64>,
    next_reader: u64,
}

/// How an answer has ended for its readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ending {
    /// Whether it is whole.
    pub(crate) whole: bool,
    /// What it cost.
    pub(crate) price: Amount,
}

impl State {
    /// Drops what every reader has read.
    fn prune(&mut self, under_way: &AtomicUsize) {
        let slowest = self.readers.values().min().copied().unwrap_or(u64::MAX);
        while self.first < slowest
            && let Some(chunk) = self.chunks.pop_front()
        {
            self.first += 1;
            self.bytes -= chunk.len();
            under_way.fetch_sub(chunk.len(), Ordering::Relaxed);
        }
    }
}

impl Coalesced {
    fn new(under_way: Arc<AtomicUsize>) -> Coalesced {
        let (state, grown, taken) = (Mutex::default(), Notify::new(), Notify::new());
        Coalesced { state, under_way, grown, taken }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(self: &Arc<Self>) -> Reader {
        let mut state = self.state();
        let id = state.next_reader;
        state.next_reader += 1;
        state.readers.insert(id, 0);
        drop(state);
        Reader { answer: self.clone(), id }
    }
}

impl Drop for Coalesced {
    fn drop(&mut self) {
        let bytes = self.state().bytes;
        self.under_way.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The side of an answer under way that fills it. Dropped before its end, the answer has failed.
pub(crate) struct Lead {
    cache: Arc<Cache>,
    key: Key,
    answer: Arc<Coalesced>,
    limit: usize,
}

impl Lead {
    /// Sets status and headers.
    pub(crate) fn begin(&self, status: StatusCode, headers: HeaderMap) {
        self.answer.state().head = Some((status, headers));
        self.answer.grown.notify_waiters();
    }

    /// Adds bytes. An answer that is too long to be kept waits for its slowest reader.
    ///
    /// # Errors
    /// A reader that took nothing for a minute.
    pub(crate) async fn push(&self, bytes: Bytes) -> Result<(), String> {
        let wait = async {
            loop {
                let taken = self.answer.taken.notified();
                tokio::pin!(taken);
                taken.as_mut().enable();
                if self.add(&bytes) {
                    return;
                }
                taken.await;
            }
        };
        let stalled = |_| format!("a client took nothing for {STALL:?}");
        tokio::time::timeout(STALL, wait).await.map_err(stalled)?;
        self.answer.grown.notify_waiters();
        Ok(())
    }

    /// Adds bytes if there is room.
    fn add(&self, bytes: &Bytes) -> bool {
        let total = self.answer.under_way.load(Ordering::Relaxed);
        let mut state = self.answer.state();
        if !state.is_cut && (state.bytes + bytes.len() > self.limit / PART || total > self.limit) {
            drop(state);
            // Nobody may join any more: the beginning goes when it was read.
            self.cache.retire(&self.key, &self.answer);
            state = self.answer.state();
            state.is_cut = true;
        }
        if state.is_cut {
            state.prune(&self.answer.under_way);
            if state.bytes > AHEAD {
                return false;
            }
        }
        state.bytes += bytes.len();
        self.answer.under_way.fetch_add(bytes.len(), Ordering::Relaxed);
        state.chunks.push_back(bytes.clone());
        true
    }

    /// Waits until there is no reader left; none can join afterwards.
    pub(crate) async fn abandoned(&self) {
        loop {
            let taken = self.answer.taken.notified();
            tokio::pin!(taken);
            taken.as_mut().enable();
            {
                // Under the lock of the cache, by which readers join.
                let mut inner = self.cache.inner();
                if self.answer.state().readers.is_empty() {
                    if inner.running.get(&self.key).is_some_and(|it| Arc::ptr_eq(it, &self.answer)) {
                        inner.running.remove(&self.key);
                    }
                    return;
                }
            }
            taken.await;
        }
    }

    /// Ends the answer at a time since the start, and keeps it where it is whole and `fit` for that.
    pub(crate) fn finish(self, ending: Ending, fit: bool, now: Duration) {
        let mut inner = self.cache.inner();
        let is_running =
            inner.running.get(&self.key).is_some_and(|running| Arc::ptr_eq(running, &self.answer));
        let mut state = self.answer.state();
        state.ended = Some(ending);
        if is_running {
            inner.running.remove(&self.key);
            let head = state.head.as_ref().filter(|(status, _)| *status == StatusCode::OK);
            if let Some((_, headers)) = head.filter(|_| ending.whole && fit && !state.is_cut) {
                let body: Vec<u8> = state.chunks.iter().flat_map(|chunk| chunk.iter().copied()).collect();
                let answer = KeptAnswer { headers: headers.clone(), body: body.into(), price: ending.price };
                inner.answers.put(self.key.clone(), answer, now);
            }
        }
        drop(state);
        drop(inner);
        self.answer.grown.notify_waiters();
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.cache.retire(&self.key, &self.answer);
        self.answer.state().ended.get_or_insert(Ending { whole: false, price: Amount::ZERO });
        self.answer.grown.notify_waiters();
    }
}

/// A client's side of an answer under way.
pub(crate) struct Reader {
    answer: Arc<Coalesced>,
    id: u64,
}

impl Reader {
    /// Status and headers, when they are there; nothing where the work ended before.
    pub(crate) async fn head(&self) -> Option<(StatusCode, HeaderMap)> {
        loop {
            let grown = self.answer.grown.notified();
            tokio::pin!(grown);
            grown.as_mut().enable();
            {
                let state = self.answer.state();
                if state.head.is_some() || state.ended.is_some() {
                    return state.head.clone();
                }
            }
            grown.await;
        }
    }

    /// The next bytes, or how the answer has ended.
    pub(crate) async fn next(&self) -> Result<Bytes, Ending> {
        loop {
            let grown = self.answer.grown.notified();
            tokio::pin!(grown);
            grown.as_mut().enable();
            if let Some(next) = self.take() {
                self.answer.taken.notify_waiters();
                return next;
            }
            grown.await;
        }
    }

    /// How the answer has ended, if it has.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.answer.state().ended
    }

    fn take(&self) -> Option<Result<Bytes, Ending>> {
        let mut state = self.answer.state();
        let first = state.first;
        let at = *state.readers.get(&self.id)?;
        let place = usize::try_from(at.saturating_sub(first)).unwrap_or(usize::MAX);
        match state.chunks.get(place).cloned() {
            Some(chunk) => {
                state.readers.insert(self.id, at + 1);
                if state.is_cut {
                    state.prune(&self.answer.under_way);
                }
                Some(Ok(chunk))
            }
            None => state.ended.map(Err),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.answer.state().readers.remove(&self.id);
        self.answer.taken.notify_waiters();
    }
}
