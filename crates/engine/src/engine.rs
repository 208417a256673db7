//! The engine's thread: from start to the last answer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kernels::Compute;
use model::Model;
use text::Tokenizer;

use crate::handle::{Shape, Shared};
use crate::machine::Machine;
use crate::step::Core;
use crate::{Error, FinishReason, Forward, Handle, Limits, Speculation, Unwatched, Vocabulary, Watch};

/// A smaller model of the same vocabulary, which guesses what a larger one will say.
pub struct Draft {
    /// Its weights.
    pub model: Arc<Model>,
    /// Its words, to be checked against the larger one's.
    pub vocabulary: Arc<dyn Vocabulary>,
}

/// A running engine; only its [`Handle`] is ever held.
#[derive(Debug)]
pub enum Engine {}

impl Engine {
    /// Starts an engine over a model, on a thread of its own.
    ///
    /// # Errors
    /// When there is no memory for keys and values, or as [`Engine::start_with`].
    pub fn start(
        model: Arc<Model>,
        tokenizer: Arc<Tokenizer>,
        compute: Compute,
        limits: Limits,
    ) -> Result<Handle, Error> {
        Engine::start_watched(model, tokenizer, compute, limits, Box::new(Unwatched))
    }

    /// As [`Engine::start`], telling `watch` what happens.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn start_watched(
        model: Arc<Model>,
        vocabulary: Arc<dyn Vocabulary>,
        compute: Compute,
        limits: Limits,
        watch: Box<dyn Watch>,
    ) -> Result<Handle, Error> {
        Engine::start_drafted(model, vocabulary, None, compute, limits, watch)
    }

    /// As [`Engine::start_watched`], with a smaller model that goes ahead and whose guesses `model` verifies.
    ///
    /// # Errors
    /// As [`Engine::start`], or when the two do not have the same vocabulary.
    pub fn start_drafted(
        model: Arc<Model>,
        vocabulary: Arc<dyn Vocabulary>,
        draft: Option<Draft>,
        compute: Compute,
        limits: Limits,
        watch: Box<dyn Watch>,
    ) -> Result<Handle, Error> {
        check(&limits)?;
        if let Some(draft) = &draft {
            same_words(
                vocabulary.as_ref(),
                draft.vocabulary.as_ref(),
                model.spec.vocab,
                draft.model.spec.vocab,
            )?;
        }
        let machine = Machine::new(model, Arc::new(compute), &limits)?;
        let draft = draft.map(|draft| machine.draft(draft.model, &limits)).transpose()?;
        let draft = draft.map(|draft| Box::new(draft) as Box<dyn Forward>);
        Engine::start_beside(machine, draft, vocabulary, limits, watch)
    }

    /// Starts an engine over anything that computes logits, on a thread of its own.
    ///
    /// # Errors
    /// When a limit is 0 that cannot be, or the context needs more KV blocks than there are.
    pub fn start_with(
        forward: impl Forward + 'static,
        vocabulary: Arc<dyn Vocabulary>,
        limits: Limits,
        watch: Box<dyn Watch>,
    ) -> Result<Handle, Error> {
        Engine::start_beside(forward, None, vocabulary, limits, watch)
    }

    /// As [`Engine::start_with`], with a draft of the same vocabulary.
    ///
    /// # Errors
    /// As [`Engine::start_with`].
    pub fn start_beside(
        forward: impl Forward + 'static,
        draft: Option<Box<dyn Forward>>,
        vocabulary: Arc<dyn Vocabulary>,
        limits: Limits,
        watch: Box<dyn Watch>,
    ) -> Result<Handle, Error> {
        let shape = shape(&forward, &limits)?;
        let bounds = limits.bounds();
        let (max_wait, prefix_cache) = (limits.max_wait, limits.prefix_cache);
        let (handle, shared) = Handle::new(vocabulary.clone(), limits, shape);
        let body = move || {
            // The core holds `Rc`s, so it is made where it lives.
            let counters = shared.counters.clone();
            let mut forward = forward;
            forward.settle();
            let mut core =
                Core::new(forward, vocabulary, bounds, max_wait, counters, watch, draft, prefix_cache);
            let outcome = catch_unwind(AssertUnwindSafe(|| serve(&mut core, &shared)));
            close(core, &shared, outcome.err().map(|panic| message(panic.as_ref())));
        };
        cpu::thread::spawn("engine", body).map_err(|error| Error::Start(format!("no thread: {error}")))?;
        Ok(handle)
    }
}

/// Most rows of logits that one of two models may have past the words they share: padding.
const PADDING: usize = 1024;

/// Refuses a draft whose token ids mean other words: everything it proposed would be wrong.
fn same_words(
    main: &dyn Vocabulary,
    draft: &dyn Vocabulary,
    main_vocab: usize,
    draft_vocab: usize,
) -> Result<(), Error> {
    if main_vocab.abs_diff(draft_vocab) > PADDING {
        return Err(Error::Start(format!(
            "the draft model has a vocabulary of {draft_vocab} tokens and the model one of {main_vocab}: \
             they must have the same"
        )));
    }
    for id in 0..main_vocab.min(draft_vocab) as u32 {
        let (ours, theirs) = (main.bytes(id), draft.bytes(id));
        if ours != theirs {
            let (ours, theirs) = (String::from_utf8_lossy(&ours), String::from_utf8_lossy(&theirs));
            return Err(Error::Start(format!(
                "token {id} is {theirs:?} to the draft model and {ours:?} to the model: \
                 they must have the same vocabulary"
            )));
        }
    }
    Ok(())
}

fn check(limits: &Limits) -> Result<(), Error> {
    if limits.speculation.tokens > Speculation::MAX_TOKENS {
        let (asked, most) = (limits.speculation.tokens, Speculation::MAX_TOKENS);
        return Err(Error::Start(format!("{asked} proposed tokens a step, expected at most {most}")));
    }
    for (name, value) in [
        ("max_running", limits.max_running),
        ("max_queued", limits.max_queued),
        ("prefill_chunk", limits.prefill_chunk),
    ] {
        if value == 0 {
            return Err(Error::Start(format!("{name} is 0, expected at least 1")));
        }
    }
    Ok(())
}

fn shape(forward: &impl Forward, limits: &Limits) -> Result<Shape, Error> {
    check(limits)?;
    let (blocks, block_tokens) = (forward.blocks(), forward.block_tokens());
    let context = if limits.context == 0 { forward.context() } else { limits.context.min(forward.context()) };
    let room = blocks * block_tokens;
    if context < 2 || room < context {
        return Err(Error::Start(format!(
            "a context of {context} tokens needs as many KV slots and at least 2; there are {room}"
        )));
    }
    Ok(Shape { vocab: forward.vocab(), context, blocks, block_tokens })
}

/// Steps until the inbox is closed and everything is answered, or a drain has run out of time.
fn serve<F: Forward>(core: &mut Core<F>, shared: &Shared) {
    let clock = || shared.now();
    loop {
        let mut inbox = shared.lock();
        loop {
            for sequence in inbox.arrived.drain(..) {
                core.accept(sequence);
            }
            if inbox.deadline.is_some_and(|deadline| clock() >= deadline) {
                return;
            }
            if !core.is_idle() {
                break;
            }
            if inbox.closed {
                return;
            }
            inbox = shared.wait(inbox);
        }
        drop(inbox);
        core.step(&clock);
    }
}

/// Answers whatever is left, even if an outbox panics in turn, and says that the thread is gone.
fn close<F: Forward>(mut core: Core<F>, shared: &Shared, died: Option<String>) {
    let left = shared.shut();
    let outcome = match died {
        Some(message) => {
            tracing::error!(%message, "the engine's thread panicked");
            Err(Error::Died(message))
        }
        None => Ok(FinishReason::Cancelled),
    };
    for sequence in left {
        core.accept(sequence);
    }
    while !core.is_idle() {
        // Each round ends at least one, panic or not.
        let _ = catch_unwind(AssertUnwindSafe(|| core.end_one(&outcome, shared.now())));
    }
    drop(core);
    shared.end();
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without a message".into())
}
