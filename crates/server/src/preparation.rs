//! From a body to a plan: how many at once, who waits, and what stops with its client.
//!
//! Preparing a request is parsing, rendering and tokenizing: plain computing on threads of its own. A handler waits for a
//! slot on the async side, so that a client that leaves meanwhile leaves nothing behind. Once begun, the closure owns
//! all that the work stands for (the body and its memory, the slot, the key's place and the place of the answer),
//! and gives it back when the work has ended, not when the client has gone. It ends early by a flag that the
//! handler raises when it is dropped.
//!
//! Bodies from [`LARGE`] on have slots of their own: a short request never waits for a long text.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use text::{Limit, Prompt, Unencoded};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::Fault;

use crate::Served;
use crate::shares::{Full, Owner, Share, Shares};
use crate::visit::{self, Visit};

/// Bytes from which on a body is a large one.
pub(crate) const LARGE: usize = 64 << 10;
/// Preparations of small bodies at once.
const SMALL_SLOTS: usize = 3;
/// Preparations of large bodies at once: each may take some 100 MB for parsed JSON and rendered text.
const LARGE_SLOTS: usize = 1;
/// Preparations at once, and so the threads that they need.
pub const PREPARATIONS: usize = SMALL_SLOTS + LARGE_SLOTS;
/// Requests that may wait for a slot, of each kind, and those of one client.
const WAITING: usize = 256;
const WAITING_EACH: usize = 64;
/// Longest wait for a slot.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Slots for bodies of one kind.
struct Lane {
    slots: Arc<Semaphore>,
    waiting: Arc<Shares>,
}

/// The slots of a server.
pub(crate) struct Preparation {
    small: Lane,
    large: Lane,
}

/// Why there is no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSlot {
    /// Too many wait.
    Queue(Full),
    /// The wait was too long.
    Late,
}

impl NoSlot {
    pub(crate) fn fault(self) -> Fault {
        match self {
            NoSlot::Queue(Full::Own) => {
                let message = format!("{WAITING_EACH} requests of this client wait to be read, its limit");
                Fault::busy(message, 1)
            }
            NoSlot::Queue(Full::Sum) => {
                Fault::busy(format!("{WAITING} requests wait to be read, the limit"), 2)
            }
            NoSlot::Late => {
                let seconds = LONGEST_WAIT.as_secs();
                Fault::overdue(format!("the request could not be read within {seconds} s"), 5)
            }
        }
    }
}

impl Default for Preparation {
    fn default() -> Preparation {
        let lane = |slots| Lane {
            slots: Arc::new(Semaphore::new(slots)),
            waiting: Shares::new(WAITING, WAITING_EACH),
        };
        Preparation { small: lane(SMALL_SLOTS), large: lane(LARGE_SLOTS) }
    }
}

impl Preparation {
    /// A slot for a body of so many bytes. Dropped while it waits, it has taken nothing.
    pub(crate) async fn enter(&self, owner: Owner, bytes: usize) -> Result<OwnedSemaphorePermit, NoSlot> {
        let lane = if bytes < LARGE { &self.small } else { &self.large };
        let _waiting: Share = lane.waiting.take(owner, 1).map_err(NoSlot::Queue)?;
        match tokio::time::timeout(LONGEST_WAIT, lane.slots.clone().acquire_owned()).await {
            Ok(Ok(slot)) => Ok(slot),
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => Err(NoSlot::Late),
        }
    }
}

/// Raises its flag when it is dropped: the handler has ended, or its client has left.
pub(crate) struct Leaving(Arc<AtomicBool>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A model and the work of one request on it, as the preparing thread sees them.
pub(crate) struct Work {
    served: Arc<Served>,
    stop: Arc<AtomicBool>,
    visit: Option<Arc<Visit>>,
}

impl Deref for Work {
    type Target = Served;

    fn deref(&self) -> &Served {
        &self.served
    }
}

impl Work {
    /// The work of the visit that this task serves, and what stops it.
    pub(crate) fn new(served: Arc<Served>) -> (Work, Leaving) {
        let stop = Arc::new(AtomicBool::new(false));
        (Work { served, stop: stop.clone(), visit: visit::current() }, Leaving(stop))
    }

    /// Runs `read` as the visit that this is work of.
    pub(crate) fn run<T>(&self, read: impl FnOnce(&Work) -> Result<T, Fault>) -> Result<T, Fault> {
        self.goes_on()?;
        match &self.visit {
            Some(visit) => visit.clone().scope_sync(|| read(self)),
            None => read(self),
        }
    }

    /// An error once the client has left; nobody gets to see it.
    pub(crate) fn goes_on(&self) -> Result<(), Fault> {
        if self.stop.load(Ordering::Acquire) { Err(left()) } else { Ok(()) }
    }

    /// Most tokens that are worked out for a request that only counts them, or keeps the last of them.
    pub(crate) fn most_counted(&self) -> usize {
        self.engine.context().max(wire::limits::COUNTED_TOKENS)
    }

    /// Tokens of a text that is in `field`: at most `most`, or an error that says how many there are at least.
    pub(crate) fn encode(
        &self,
        field: &str,
        text: &str,
        wrapped: bool,
        most: usize,
    ) -> Result<Vec<u32>, Fault> {
        let tokens = self.limited(most, |limit| self.language.encode_within(text, wrapped, limit));
        self.count(tokens, field, most, |message| Fault::field(field, message))
    }

    /// Tokens of a conversation, bounded as those of [`Work::encode`].
    pub(crate) fn encode_prompt(&self, prompt: &Prompt, most: usize) -> Result<Vec<u32>, Fault> {
        let tokens = self.limited(most, |limit| self.language.encode_prompt_within(prompt, limit));
        self.count(tokens, "messages", most, Fault::template)
    }

    fn limited<T>(&self, most: usize, encode: impl FnOnce(&Limit<'_>) -> T) -> T {
        encode(&Limit { most, stop: &|| self.stop.load(Ordering::Relaxed) })
    }

    /// Charges the tokens that were worked out, also those of a text that turned out to be too long.
    fn count(
        &self,
        tokens: Result<Vec<u32>, Unencoded>,
        field: &str,
        most: usize,
        failed: impl FnOnce(String) -> Fault,
    ) -> Result<Vec<u32>, Fault> {
        match tokens {
            Ok(tokens) => {
                self.charge(tokens.len());
                Ok(tokens)
            }
            Err(Unencoded::TooMany { at_least, worked }) => {
                self.charge(worked);
                let context = self.engine.context();
                Err(Fault::context_at_least(field, at_least, most.max(context), most > context))
            }
            Err(Unencoded::Stopped { worked }) => {
                self.charge(worked);
                Err(left())
            }
            Err(Unencoded::Failed(message)) => Err(failed(message)),
        }
    }

    /// Takes tokens from the key's minute, whatever becomes of the request.
    pub(crate) fn charge(&self, tokens: usize) {
        if let Some(visit) = &self.visit {
            visit.prepares(tokens);
        }
    }
}

fn left() -> Fault {
    Fault::unavailable("client_left", "the client left before its request was read", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn small_bodies_do_not_wait_for_large_ones_and_who_leaves_is_gone() {
        let preparation = Preparation::default();
        let (one, other) = (Owner::Key(1), Owner::Key(2));
        let _large = preparation.enter(one, LARGE).await.unwrap();
        assert_eq!(preparation.enter(other, LARGE).await.unwrap_err(), NoSlot::Late);
        let mut waiting: Vec<_> =
            (0..WAITING_EACH).map(|_| Box::pin(preparation.enter(one, LARGE))).collect();
        for wait in &mut waiting {
            assert!(futures_are_pending(wait).await);
        }
        assert_eq!(preparation.enter(one, LARGE).await.unwrap_err(), NoSlot::Queue(Full::Own));
        drop(preparation.enter(one, LARGE - 1).await.unwrap());
        drop(waiting);
        assert!(futures_are_pending(&mut Box::pin(preparation.enter(one, LARGE))).await);
    }

    async fn futures_are_pending<F: Future + Unpin>(wait: &mut F) -> bool {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *wait).poll(context).is_pending())
        })
        .await
    }
}
