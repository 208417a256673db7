//! The requests of a connection of HTTP/2: whether there are any, and whether their readers take their answers.
//!
//! HTTP/2 has a window for each answer. A reader that does not open it holds its answer for ever, though its connection is
//! busy with others and answers pings. So the connection ends when a part of an answer was handed over and no more of it
//! was asked for in the time that a reader has; and when it had no request for a while.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// How long a connection stays open without a request.
const IDLE: Duration = Duration::from_secs(300);
/// Between two looks.
const TICK: Duration = Duration::from_secs(1);

/// The requests of a connection.
#[derive(Default)]
pub(crate) struct Streams {
    /// Whether HTTP/2 is spoken.
    on: AtomicBool,
    next: AtomicU64,
    stuck: Duration,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Answers that are under way: when a part was handed over, for those that were not asked for more since.
    answers: HashMap<u64, Option<Instant>>,
    /// When the last answer ended.
    idle: Option<Instant>,
    tick: Option<Pin<Box<Sleep>>>,
}

impl Streams {
    /// The streams of a connection whose readers may take nothing for `stuck`.
    pub(crate) fn new(stuck: Duration) -> Streams {
        Streams { stuck, ..Streams::default() }
    }

    /// HTTP/2 is spoken from now on.
    pub(crate) fn begin(&self) {
        self.on.store(true, Ordering::Release);
        lock(&self.state).idle = Some(Instant::now());
    }

    /// An answer begins; none over HTTP/1, where the connection's own deadline holds.
    pub(crate) fn handed(&self) -> Option<Handed> {
        if !self.on.load(Ordering::Acquire) {
            return None;
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.state).answers.insert(id, None);
        Some(Handed { id, state: self.state.clone() })
    }

    /// Never ready but for the end: of an idle connection, or with an error of one whose reader is stuck.
    pub(crate) fn poll_watch(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = lock(&self.state);
        loop {
            let now = Instant::now();
            if state.answers.values().flatten().any(|handed| now >= *handed + self.stuck) {
                let message = "a client took nothing of an answer in the time for it";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)));
            }
            if state.answers.is_empty() && state.idle.is_some_and(|idle| now >= idle + IDLE) {
                return Poll::Ready(Ok(()));
            }
            let tick = state.tick.get_or_insert_with(|| Box::pin(tokio::time::sleep(TICK)));
            if tick.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            tick.as_mut().reset(now + TICK);
        }
    }
}

/// An answer that is under way.
pub(crate) struct Handed {
    id: u64,
    state: Arc<Mutex<State>>,
}

impl Handed {
    /// The answer was asked for a part of it, and gave one or has none yet.
    pub(crate) fn set(&self, gave: bool) {
        lock(&self.state).answers.insert(self.id, gave.then(Instant::now));
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.answers.remove(&self.id);
        state.idle = Some(Instant::now());
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn watched(streams: &Streams) -> io::Result<()> {
        std::future::poll_fn(|context| streams.poll_watch(context)).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_requests_ends() {
        let streams = Streams::new(Duration::from_secs(30));
        assert!(streams.handed().is_none(), "HTTP/1");
        streams.begin();
        let began = Instant::now();
        let answer = streams.handed().unwrap();
        assert!(tokio::time::timeout(IDLE * 3, watched(&streams)).await.is_err(), "an answer is under way");
        drop(answer);
        watched(&streams).await.unwrap();
        assert!((IDLE * 4..IDLE * 4 + TICK * 2).contains(&began.elapsed()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_opens_no_window_is_given_up() {
        let streams = Streams::new(Duration::from_secs(30));
        streams.begin();
        let (slow, waiting) = (streams.handed().unwrap(), streams.handed().unwrap());
        waiting.set(false);
        for _ in 0..10 {
            slow.set(true);
            assert!(tokio::time::timeout(Duration::from_secs(20), watched(&streams)).await.is_err());
        }
        slow.set(true);
        assert_eq!(watched(&streams).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
