//! The engine's handle: requests in, tickets out.
//!
//! Requests go through an [`Inbox`]; the engine's thread owns everything else. Each accepted request gets its `Done` or
//! `Failed`, even if the engine's thread panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::device::Waiter;
use crate::inbox::Inbox;
use crate::params::{MAX_LOGPROBS, invalid};
use crate::sequence::Sequence;
use crate::stats::Counters;
use crate::{Limits, MemoryBudget, MemoryUse, Outbox, Refused, Request, Speed, Stats, Vocabulary};

/// Upper bound of the number of stop strings, and of the bytes of one.
pub const MAX_STOPS: usize = 64;
/// Bytes of the longest stop string.
pub const MAX_STOP_BYTES: usize = 1024;

/// Submits requests to an engine; clones lead to the same one. When the last is dropped the engine finishes what it has
/// and ends.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
    _close_on_drop: Arc<CloseOnDrop>,
}

/// A request in the engine. Dropping it cancels the request.
#[must_use = "dropping a ticket cancels its request"]
pub struct Ticket {
    cancelled: Arc<AtomicBool>,
    shared: Arc<Shared>,
    seed: u64,
}

/// State shared by the handles and the engine's thread.
pub(crate) struct Shared {
    pub(crate) inbox: Inbox<Sequence>,
    pub(crate) counters: Arc<Counters>,
    vocabulary: Arc<dyn Vocabulary>,
    limits: Limits,
    shape: Shape,
    /// The device's memory, and the name that the engine has reserved some of it under.
    account: (MemoryBudget, String),
}

/// Fixed facts of the model that admission needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) vocab: usize,
    pub(crate) context: usize,
    pub(crate) blocks: usize,
    pub(crate) block_tokens: usize,
    pub(crate) states: usize,
}

/// Closes the inbox when the last handle goes.
struct CloseOnDrop(Arc<Shared>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.inbox.close();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Release);
        self.shared.inbox.wake();
    }
}

impl Ticket {
    /// The seed in use: the request's, or the one taken from the operating system.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Cancels now; what was generated stays sent, and a `Done` with reason `Cancelled` follows.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.shared.inbox.wake();
    }
}

impl Handle {
    pub(crate) fn new(
        vocabulary: Arc<dyn Vocabulary>,
        limits: Limits,
        shape: Shape,
        turn: Arc<Waiter>,
        account: (MemoryBudget, String),
    ) -> (Handle, Arc<Shared>) {
        let shared = Arc::new(Shared {
            inbox: Inbox::new(turn),
            counters: Arc::default(),
            vocabulary,
            limits,
            shape,
            account,
        });
        (Handle { shared: shared.clone(), _close_on_drop: Arc::new(CloseOnDrop(shared.clone())) }, shared)
    }

    /// Puts a request in the queue. The outbox then gets its events, `Done` or `Failed` last. Replaying the tokens of
    /// [`Request::resume`] takes as long as the masks of their constraint, and is done here.
    pub fn submit(&self, request: Request, outbox: Box<dyn Outbox>) -> Result<Ticket, Refused> {
        self.shared.check(&request)?;
        let seed = request.params.seed.unwrap_or_else(os_seed);
        let resume = request.resume.clone();
        let prompt = request.prompt.len() + resume.len();
        let (context, vocabulary) = (self.shared.shape.context, &self.shared.vocabulary);
        let mut sequence = Sequence::new(request, seed, context, vocabulary, outbox, self.shared.inbox.now());
        sequence.replay(&resume, vocabulary.as_ref())?;
        sequence.tell_resumed();
        let cancelled = sequence.cancel_flag();
        let mut inbox = self.shared.inbox.lock();
        if inbox.closed {
            return Err(Refused::Closed);
        }
        let counters = &self.shared.counters;
        let waiting = counters.waiting.load(Ordering::Relaxed);
        let waiting_tokens = counters.waiting_tokens.load(Ordering::Relaxed);
        // A lone prompt longer than the limit of tokens is still taken: else it could never be served.
        let full = waiting >= self.shared.limits.max_queued
            || (waiting > 0 && waiting_tokens.saturating_add(prompt) > self.shared.limits.max_queued_tokens);
        if full {
            counters.refused_busy.fetch_add(1, Ordering::Relaxed);
            return Err(Refused::Busy { waiting, waiting_tokens });
        }
        counters.enters_queue(prompt);
        let awaited = sequence.caller.priority.is_awaited();
        inbox.arrived.push_back(sequence);
        drop(inbox);
        match awaited {
            true => self.shared.inbox.wake_for_awaited(),
            false => self.shared.inbox.wake(),
        }
        Ok(Ticket { cancelled, shared: self.shared.clone(), seed })
    }

    /// Tokens that one request may have, answer included.
    pub fn context(&self) -> usize {
        self.shared.shape.context
    }

    /// Gauges and totals of now.
    pub fn stats(&self) -> Stats {
        let shape = self.shared.shape;
        self.shared.counters.snapshot(
            shape.blocks,
            shape.block_tokens,
            shape.states,
            shape.context,
            self.shared.inbox.now(),
        )
    }

    /// Measured speed of the last steps.
    pub fn speed(&self) -> Speed {
        self.shared.counters.speed.read()
    }

    /// Slots: most requests computed at once.
    pub fn slots(&self) -> usize {
        self.shared.limits.max_running
    }

    /// What is reserved of the device's memory under the engine's name.
    pub fn memory(&self) -> MemoryUse {
        let (memory, name) = &self.shared.account;
        memory.of(name)
    }

    /// Whether the engine still takes requests.
    pub fn is_open(&self) -> bool {
        self.shared.inbox.is_open()
    }

    /// Closes the engine to new requests; accepted ones continue.
    pub fn close(&self) {
        self.shared.inbox.close();
    }

    /// Takes no more requests, waits until those it has are done, cancels what is left after `deadline`, and returns
    /// when the engine's thread has ended.
    pub fn drain(&self, deadline: Duration) {
        self.shared.inbox.drain(deadline);
    }
}

impl Shared {
    fn check(&self, request: &Request) -> Result<(), Refused> {
        let Shape { vocab, context, .. } = self.shape;
        request.params.check(vocab)?;
        if request.prompt.is_empty() {
            return Err(invalid("prompt", "empty", "at least 1 token"));
        }
        if request.prompt.len() >= context {
            return Err(Refused::PromptTooLong { tokens: request.prompt.len(), context });
        }
        if let Some(id) = request.prompt.iter().find(|id| **id as usize >= vocab) {
            return Err(invalid("prompt", id, &format!("token ids below {vocab}")));
        }
        if let Some(n) = request.prompt_logprobs.filter(|n| *n > MAX_LOGPROBS) {
            return Err(invalid("prompt_logprobs", n, "at most 20"));
        }
        if let Some(most) = request.max_tokens.filter(|most| *most < request.min_tokens) {
            return Err(invalid("min_tokens", request.min_tokens, &format!("at most max_tokens, {most}")));
        }
        if request.stop.len() > MAX_STOPS {
            return Err(invalid("stop", format!("{} strings", request.stop.len()), "at most 64"));
        }
        if let Some(stop) = request.stop.iter().find(|s| s.is_empty() || s.len() > MAX_STOP_BYTES) {
            return Err(invalid("stop", format!("a string of {} bytes", stop.len()), "1 to 1024 bytes"));
        }
        self.check_resume(request)?;
        if request.stop_ids.len() > MAX_STOPS {
            return Err(invalid("stop_ids", format!("{} ids", request.stop_ids.len()), "at most 64"));
        }
        Ok(())
    }
}

impl Shared {
    /// Checks that the answer can go on exactly.
    fn check_resume(&self, request: &Request) -> Result<(), Refused> {
        let Shape { vocab, context, .. } = self.shape;
        let Request { resume, params, .. } = request;
        if resume.is_empty() {
            return Ok(());
        }
        let name = "resume";
        if let Some(id) = resume.iter().find(|id| **id as usize >= vocab) {
            return Err(invalid(name, id, &format!("token ids below {vocab}")));
        }
        let most = request.max_tokens.unwrap_or(usize::MAX).min(context - request.prompt.len());
        if resume.len() > most {
            let expected = format!("at most the {most} that max_tokens and the context leave");
            return Err(invalid(name, format!("{} token ids", resume.len()), &expected));
        }
        if params.temperature > 0.0 && params.seed.is_none() {
            return Err(invalid(
                name,
                "given without a seed",
                "the seed that the tokens came from, or temperature 0",
            ));
        }
        if params.temperature > 0.0 && params.mirostat.is_some() {
            return Err(invalid(name, "given with mirostat", "no mirostat: its state is not in the tokens"));
        }
        if request.prompt_logprobs.is_some() {
            return Err(invalid(name, "given with prompt_logprobs", "one of both"));
        }
        Ok(())
    }
}

/// The operating system's randomness, by the way the standard library seeds its hash tables. 32 bits, so that a
/// reported seed survives readers of JSON that know only doubles.
fn os_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() >> 32
}
