//! The engine's thread: from start to the last answer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use kernels::Compute;
use model::Model;

use crate::device::Member;
use crate::handle::{Shape, Shared};
use crate::inbox::Worker;
use crate::model_runner::ModelRunner;
use crate::step::{EngineCore, Turn};
use crate::{
    Device, Error, FinishReason, Forward, Handle, Limits, Reservation, Speculation, Unwatched, Vocabulary,
    Watch,
};

/// A smaller model of the same vocabulary, which guesses what a larger one will say.
pub struct DraftModel {
    /// The draft model's weights.
    pub model: Arc<Model>,
    /// The draft model's vocabulary, which must match the larger model's.
    pub vocabulary: Arc<dyn Vocabulary>,
}

/// Configuration of an engine, without its model.
pub struct Setup {
    /// Name of the engine in metrics and in the device's accounting of time and memory.
    pub name: String,
    /// Tokens as text.
    pub vocabulary: Arc<dyn Vocabulary>,
    /// Limits of the engine.
    pub limits: Limits,
    /// Told what happens.
    pub watch: Box<dyn Watch>,
    /// Memory reservations that the engine holds, such as those of the model's weights. Released after the engine has
    /// ended and freed its memory.
    pub memory: Vec<Reservation>,
}

impl Setup {
    /// A configuration without an observer, named `model`.
    pub fn new(vocabulary: Arc<dyn Vocabulary>, limits: Limits) -> Setup {
        Setup { name: "model".into(), vocabulary, limits, watch: Box::new(Unwatched), memory: Vec::new() }
    }

    /// The same, called `name`.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Setup {
        self.name = name.into();
        self
    }

    /// The same, watched by `watch`.
    #[must_use]
    pub fn watched(mut self, watch: Box<dyn Watch>) -> Setup {
        self.watch = watch;
        self
    }

    /// The same, holding `memory` for as long as the engine has its model.
    #[must_use]
    pub fn holding(mut self, memory: Reservation) -> Setup {
        self.memory.push(memory);
        self
    }
}

/// A running engine; only its [`Handle`] is ever held.
#[derive(Debug)]
pub enum Engine {}

impl Engine {
    /// Starts an engine over a model, on a thread of its own, on a device that it has for itself.
    ///
    /// # Errors
    /// As [`Engine::start_on`].
    pub fn start(
        model: Arc<Model>,
        vocabulary: Arc<dyn Vocabulary>,
        compute: Compute,
        limits: Limits,
    ) -> Result<Handle, Error> {
        Engine::start_on(&Device::of_one(compute), model, None, Setup::new(vocabulary, limits))
    }

    /// Starts an engine over a model, on a thread of its own, on a device that it may share with others. A `draft` is a
    /// smaller model that goes ahead and whose guesses `model` verifies.
    ///
    /// # Errors When the device has no memory left for the KV cache, a recurrent state or the buffers, when draft and
    /// model do not have the same vocabulary, or as [`Engine::start_forward_on`].
    pub fn start_on(
        device: &Device,
        model: Arc<Model>,
        draft: Option<DraftModel>,
        setup: Setup,
    ) -> Result<Handle, Error> {
        let Setup { name, vocabulary, limits, .. } = &setup;
        check(limits)?;
        if let Some(draft) = &draft {
            let vocabs = (model.spec.vocab, draft.model.spec.vocab);
            check_vocabularies(vocabulary.as_ref(), draft.vocabulary.as_ref(), vocabs.0, vocabs.1)?;
        }
        let runner = ModelRunner::new(model, device, name, limits)?;
        let draft = draft.map(|draft| runner.draft(draft.model, device, name, limits)).transpose()?;
        let draft = draft.map(|draft| Box::new(draft) as Box<dyn Forward>);
        Engine::start_forward_on(device, runner, draft, setup)
    }

    /// Starts an engine over anything that computes logits, on a thread of its own, on a device of one thread that it
    /// has for itself.
    ///
    /// # Errors
    /// As [`Engine::start_forward_on`].
    pub fn start_with(
        forward: impl Forward + 'static,
        vocabulary: Arc<dyn Vocabulary>,
        limits: Limits,
        watch: Box<dyn Watch>,
    ) -> Result<Handle, Error> {
        let pool = cpu::Pool::new(1, None).map_err(|error| Error::Start(format!("no pool: {error}")))?;
        let device = Device::of_one(Compute::new(cpu::Tier::Scalar, pool));
        Engine::start_forward_on(&device, forward, None, Setup::new(vocabulary, limits).watched(watch))
    }

    /// Starts an engine over anything that computes logits, with a draft of the same vocabulary if there is one.
    ///
    /// # Errors When a limit is 0 that cannot be, the context needs more KV blocks than there are, or the system
    /// refuses a thread.
    pub fn start_forward_on(
        device: &Device,
        forward: impl Forward + 'static,
        draft: Option<Box<dyn Forward>>,
        setup: Setup,
    ) -> Result<Handle, Error> {
        let Setup { name, vocabulary, limits, watch, memory } = setup;
        let shape = shape(&forward, &limits)?;
        let bounds = limits.bounds();
        let (max_wait, prefix_cache) = (limits.max_wait, limits.prefix_cache);
        let mut member = device.join(&name, limits.max_stall);
        let account = (device.memory().clone(), name);
        let (handle, shared) =
            Handle::new(vocabulary.clone(), limits, shape, member.waiter().clone(), account);
        let body = move || {
            // The core holds `Rc`s, so it is made where it lives.
            let counters = shared.counters.clone();
            let mut core =
                EngineCore::new(forward, vocabulary, bounds, max_wait, counters, watch, draft, prefix_cache);
            let outcome = catch_unwind(AssertUnwindSafe(|| serve(&mut core, &shared, &mut member)));
            // Whether it panicked within a turn or not: what follows needs none.
            drop(member);
            answer_all(&mut core, &shared, outcome.err().map(|panic| message(panic.as_ref())));
            drop(core);
            drop(memory);
            shared.inbox.mark_ended();
        };
        cpu::thread::spawn("engine", body).map_err(|error| Error::Start(format!("no thread: {error}")))?;
        Ok(handle)
    }
}

impl Turn for Member {
    fn foreign_stall(&self) -> Option<Duration> {
        self.max_stall()
    }

    fn is_wanted(&self) -> bool {
        Member::is_wanted(self)
    }

    fn computed(&mut self) {
        self.yield_turn();
    }
}

/// Most rows of logits that one model may have beyond the shared vocabulary: padding.
const MAX_VOCAB_PADDING: usize = 1024;

/// Checks that the token ids of the draft model have the same texts as the model's; else all proposals would be wrong.
fn check_vocabularies(
    main: &dyn Vocabulary,
    draft: &dyn Vocabulary,
    main_vocab: usize,
    draft_vocab: usize,
) -> Result<(), Error> {
    if main_vocab.abs_diff(draft_vocab) > MAX_VOCAB_PADDING {
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
    Ok(Shape { vocab: forward.vocab(), context, blocks, block_tokens, states: forward.states() })
}

/// Steps until the inbox is closed and everything is answered, or a drain has run out of time.
fn serve<F: Forward>(core: &mut EngineCore<F>, shared: &Shared, member: &mut Member) {
    let clock = || shared.inbox.now();
    while let Some(deadline) = shared.inbox.take_work(core, member) {
        let Some(urgency) = core.begin_wait(clock()) else { continue };
        let has_turn = member.begin(urgency, deadline.and_then(|deadline| shared.inbox.instant(deadline)));
        // The turn before this one.
        core.watch_turn(member.take_ended());
        if has_turn {
            core.step(&clock, member);
        }
    }
}

/// Answers whatever is left, even if an outbox panics in turn.
fn answer_all<F: Forward>(core: &mut EngineCore<F>, shared: &Shared, died: Option<String>) {
    let outcome = match died {
        Some(message) => {
            tracing::error!(%message, "the engine's thread panicked");
            Err(Error::Died(message))
        }
        None => Ok(FinishReason::Cancelled),
    };
    shared.inbox.end_all(core, &outcome);
}

/// The message of a panic.
pub(crate) fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without a message".into())
}
