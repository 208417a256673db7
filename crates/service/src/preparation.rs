//! From a body to a plan: how many at once, who waits, and what stops with its client.
//!
//! Preparing a request is parsing, rendering and tokenizing: plain computing on threads of its own. A handler waits for a
//! slot on the async side, so that a client that leaves meanwhile leaves nothing behind. Once begun, the closure owns
//! all that the work stands for (the body and its memory, the slot, the key's place and the place of the answer),
//! and gives it back when the work has ended, not when the client has gone. It ends early by a flag that the
//! handler raises when it is dropped.
//!
//! Bodies from [`LARGE`] on have slots of their own: a short request never waits for a long text.

use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use inference::{LimitReached, Owner, RequestContext, Share, Shares};
use text::{EncodeError, Infill, Prompt, TokenLimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::Fault;

use crate::admission::Permit;
use crate::model::Generating;

/// Bytes from which on a body is a large one.
const LARGE: usize = 64 << 10;
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

/// Requests that may wait for a model which is not loaded, and those of one client.
const ASIDE: usize = 256;
const ASIDE_EACH: usize = 64;

/// Slots for bodies of one kind.
struct Lane {
    slots: Arc<Semaphore>,
    waiting: Arc<Shares>,
}

/// The slots of a server.
pub(crate) struct Preparation {
    small: Lane,
    large: Lane,
    /// Requests that have given their slot back while they wait for their model.
    aside: Arc<Shares>,
}

/// Why there is no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSlot {
    /// Too many wait.
    Queue(LimitReached),
    /// Too many wait for models.
    Models(LimitReached),
    /// The wait was too long.
    Late,
}

impl NoSlot {
    pub(crate) fn fault(self) -> Fault {
        match self {
            NoSlot::Queue(LimitReached::PerOwner) => {
                let message = format!("{WAITING_EACH} requests of this client wait to be read, its limit");
                Fault::busy(message, 1)
            }
            NoSlot::Queue(LimitReached::Total) => {
                Fault::busy(format!("{WAITING} requests wait to be read, the limit"), 2)
            }
            NoSlot::Models(LimitReached::PerOwner) => {
                let message =
                    format!("{ASIDE_EACH} requests of this client wait for models to load, its limit");
                Fault::busy(message, 2)
            }
            NoSlot::Models(LimitReached::Total) => {
                Fault::busy(format!("{ASIDE} requests wait for models to load, the limit"), 5)
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
        let aside = Shares::new(ASIDE, ASIDE_EACH);
        Preparation { small: lane(SMALL_SLOTS), large: lane(LARGE_SLOTS), aside }
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

    /// Takes a request's slot back while it waits for its model, so that others are read meanwhile; gives back its place
    /// among those that wait. A large body keeps its slot, which bounds the memory of those that are parsed.
    pub(crate) fn step_aside(&self, owner: Owner, admitted: &mut Admitted) -> Result<Option<Share>, NoSlot> {
        if admitted.bytes >= LARGE {
            return Ok(None);
        }
        let place = self.aside.take(owner, 1).map_err(NoSlot::Models)?;
        admitted.slot = None;
        Ok(Some(place))
    }
}

/// Raises its flag when it is dropped: the handler has ended, or its client has left.
pub(crate) struct Leaving(Arc<AtomicBool>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A request that was let in, with all that it holds of the machine until it is computed.
pub struct Admitted {
    permit: Option<Permit>,
    slot: Option<OwnedSemaphorePermit>,
    /// Bytes of its body.
    bytes: usize,
    held: Vec<Box<dyn Any + Send>>,
}

impl Admitted {
    pub(crate) fn new(permit: Option<Permit>, slot: OwnedSemaphorePermit, bytes: usize) -> Admitted {
        Admitted { permit, slot: Some(slot), bytes, held: Vec::new() }
    }

    /// Bytes of its body.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives it a slot again.
    pub(crate) fn resume(&mut self, slot: OwnedSemaphorePermit) {
        self.slot = Some(slot);
    }

    /// Keeps something until the request is in the engine: the memory of its body.
    pub fn hold(&mut self, held: impl Any + Send) {
        self.held.push(Box::new(held));
    }

    /// What it keeps, without its slot and the place of its answers.
    pub(crate) fn into_held(self) -> Vec<Box<dyn Any + Send>> {
        self.held
    }

    /// The place of its answers.
    pub(crate) fn take_permit(&mut self) -> Option<Permit> {
        self.permit.take()
    }

    /// Computes on the threads for parsing, templates and tokenizers. What the request holds, and what `work` captures,
    /// lives as long as the work, also when the client leaves; `work` is told so by its argument. A panic there goes on
    /// here.
    ///
    /// # Errors
    /// Those of `work`; and when the runtime ends.
    pub async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce(&mut Admitted, Stop) -> Result<T, Fault> + Send + 'static,
    ) -> Result<(Admitted, T), Fault> {
        let flag = Arc::new(AtomicBool::new(false));
        let _leaving = Leaving(flag.clone());
        let working = tokio::task::spawn_blocking(move || {
            let mut admitted = self;
            let stop = Stop(flag);
            stop.check()?;
            work(&mut admitted, stop).map(|done| (admitted, done))
        });
        match working.await {
            Ok(outcome) => outcome,
            Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
            // The runtime ends.
            Err(_) => Err(Fault::unavailable("draining", "the server is shutting down", 5)),
        }
    }
}

/// Says whether the client has left.
#[derive(Clone)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag, and what raises it when it is dropped.
    pub(crate) fn new() -> (Stop, Leaving) {
        let flag = Arc::new(AtomicBool::new(false));
        (Stop(flag.clone()), Leaving(flag))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// An error once the client has left; nobody gets to see it.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.is_set() { Err(left()) } else { Ok(()) }
    }
}

/// A model and the work of one request on it, as the preparing thread sees them.
pub(crate) struct Work {
    model: Generating,
    stop: Stop,
    context: Arc<RequestContext>,
}

impl Deref for Work {
    type Target = Generating;

    fn deref(&self) -> &Generating {
        &self.model
    }
}

impl Work {
    pub(crate) fn new(model: Generating, stop: Stop, context: Arc<RequestContext>) -> Work {
        Work { model, stop, context }
    }

    /// An error once the client has left; nobody gets to see it.
    pub(crate) fn goes_on(&self) -> Result<(), Fault> {
        self.stop.check()
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
        let tokens = self.limited(most, |limit| self.text.encode_within(text, wrapped, limit));
        self.count(tokens, field, most, |message| Fault::field(field, message))
    }

    /// Tokens of a text with a gap, bounded as those of [`Work::encode`]; other texts leave room for `max_tokens`.
    pub(crate) fn encode_infill(
        &self,
        infill: &wire::completion::Infill,
        max_tokens: Option<usize>,
        most: usize,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<u32>, Fault> {
        let wire::completion::Infill { prefix, suffix, extra } = infill.clone();
        let (infill, others) = (Infill { prefix, suffix, extra }, infill.extra.len());
        // Where an answer has no limit, a quarter of the context is its own.
        let reserved = max_tokens.unwrap_or(most / 4);
        let mut left_out = 0;
        let tokens = self.limited(most, |limit| {
            let tokens = self.text.encode_infill(&infill, reserved, limit)?;
            left_out = tokens.left_out;
            Ok(tokens.tokens)
        });
        if left_out > 0 {
            warnings.push(format!(
                "input_extra: {left_out} of {others} texts were left out, as the context of {most} tokens has no room"
            ));
        }
        self.count(tokens, "suffix", most, |message| Fault::unsupported("suffix", message))
    }

    /// Tokens of a conversation, bounded as those of [`Work::encode`].
    pub(crate) fn encode_prompt(&self, prompt: &Prompt, most: usize) -> Result<Vec<u32>, Fault> {
        let tokens = self.limited(most, |limit| self.text.encode_prompt_within(prompt, limit));
        self.count(tokens, "messages", most, Fault::template)
    }

    fn limited<T>(&self, most: usize, encode: impl FnOnce(&TokenLimit<'_>) -> T) -> T {
        encode(&TokenLimit { max_tokens: most, should_stop: &|| self.stop.is_set() })
    }

    /// Charges the tokens that were worked out, also those of a text that turned out to be too long.
    fn count(
        &self,
        tokens: Result<Vec<u32>, EncodeError>,
        field: &str,
        most: usize,
        failed: impl FnOnce(String) -> Fault,
    ) -> Result<Vec<u32>, Fault> {
        match tokens {
            Ok(tokens) => {
                self.charge(tokens.len());
                Ok(tokens)
            }
            Err(EncodeError::TooMany { at_least, worked }) => {
                self.charge(worked);
                let context = self.engine.context();
                Err(Fault::context_at_least(field, at_least, most.max(context), most > context))
            }
            Err(EncodeError::Stopped { worked }) => {
                self.charge(worked);
                Err(left())
            }
            Err(EncodeError::Failed(message)) => Err(failed(message)),
        }
    }

    /// Takes tokens from the key's minute, whatever becomes of the request.
    pub(crate) fn charge(&self, tokens: usize) {
        self.context.add_prepared(tokens);
    }
}

/// The fault of a request whose client has left; nobody gets to see it.
pub(crate) fn left() -> Fault {
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
        assert_eq!(preparation.enter(one, LARGE).await.unwrap_err(), NoSlot::Queue(LimitReached::PerOwner));
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
