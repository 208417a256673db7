//! The encoder's thread: from start to the last job's end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::core::{EncoderCore, longest_turn};
use super::handle::{Shape, Shared};
use super::{Encode, EncodeError, EncodeWatch, EncoderHandle, EncoderLimits};
use crate::device::Member;
use crate::device::turns::Urgency;
use crate::engine::message;
use crate::inbox::Worker;
use crate::{Device, Error, Reservation, Unwatched};

/// Configuration of an encoder, without its model.
pub struct EncoderSetup {
    /// Name of the encoder in metrics and in the device's accounting of time and memory.
    pub name: String,
    /// Limits of the encoder.
    pub limits: EncoderLimits,
    /// Told what happens.
    pub watch: Box<dyn EncodeWatch>,
    /// Memory reservations that the encoder holds, such as those of the model's weights. Released after the encoder
    /// has ended and freed its memory.
    pub memory: Vec<Reservation>,
}

impl EncoderSetup {
    /// A configuration without an observer.
    pub fn new(name: impl Into<String>, limits: EncoderLimits) -> EncoderSetup {
        EncoderSetup { name: name.into(), limits, watch: Box::new(Unwatched), memory: Vec::new() }
    }

    /// The same, watched by `watch`.
    #[must_use]
    pub fn watched(mut self, watch: Box<dyn EncodeWatch>) -> EncoderSetup {
        self.watch = watch;
        self
    }

    /// The same, holding `memory` for as long as the encoder has its model.
    #[must_use]
    pub fn holding(mut self, memory: Reservation) -> EncoderSetup {
        self.memory.push(memory);
        self
    }
}

/// A running encoder; only its [`EncoderHandle`] is ever held.
#[derive(Debug)]
pub enum Encoder {}

impl Encoder {
    /// Starts an encoder on a thread of its own, on a device of one thread that it has for itself.
    ///
    /// # Errors
    /// As [`Encoder::start`].
    pub fn start_alone(encode: impl Encode + 'static, limits: EncoderLimits) -> Result<EncoderHandle, Error> {
        let pool = cpu::Pool::new(1, None).map_err(|error| Error::Start(format!("no pool: {error}")))?;
        let device = Device::of_one(kernels::Compute::new(cpu::Tier::Scalar, pool));
        Encoder::start(&device, encode, EncoderSetup::new("encoder", limits))
    }

    /// Starts an encoder on a thread of its own, on a device that it may share with engines and other encoders.
    ///
    /// # Errors
    /// When a limit is 0 that cannot be, or the system refuses a thread.
    pub fn start(
        device: &Device,
        encode: impl Encode + 'static,
        setup: EncoderSetup,
    ) -> Result<EncoderHandle, Error> {
        let EncoderSetup { name, limits, watch, memory } = setup;
        let shape = shape(&encode, &limits)?;
        let max_wait = limits.max_wait;
        // It has no streams.
        let mut member = device.join(&name, Duration::MAX);
        let account = (device.memory().clone(), name);
        let (handle, shared) = EncoderHandle::new(limits, shape, member.waiter().clone(), account);
        let body = move || {
            let mut core = EncoderCore::new(encode, max_wait, shared.counters.clone(), watch);
            let outcome = catch_unwind(AssertUnwindSafe(|| serve(&mut core, &shared, &mut member)));
            // Whether it panicked within a turn or not: what follows needs none.
            drop(member);
            answer_all(&mut core, &shared, outcome.err().map(|panic| message(panic.as_ref())));
            drop(core);
            drop(memory);
            shared.inbox.mark_ended();
        };
        cpu::thread::spawn("encoder", body).map_err(|error| Error::Start(format!("no thread: {error}")))?;
        Ok(handle)
    }
}

fn shape(encode: &impl Encode, limits: &EncoderLimits) -> Result<Shape, Error> {
    let context = if limits.context == 0 { encode.context() } else { limits.context.min(encode.context()) };
    for (name, value) in [
        ("max_queued_texts", limits.max_queued_texts),
        ("max_queued_tokens", limits.max_queued_tokens),
        ("the context", context),
        ("the step", encode.step_tokens()),
    ] {
        if value == 0 {
            return Err(Error::Start(format!("{name} is 0, expected at least 1")));
        }
    }
    Ok(Shape { context, vocab: encode.vocab() })
}

/// Computes until the inbox is closed and everything is answered, or a drain has run out of time.
fn serve<E: Encode>(core: &mut EncoderCore<E>, shared: &Shared, member: &mut Member) {
    while let Some(deadline) = shared.inbox.take_work(core, member) {
        let Some(urgency) = core.begin_wait(shared.inbox.now()) else { continue };
        let until = deadline.into_iter().chain(core.next_deadline()).min();
        let has_turn = member.begin(urgency, until.and_then(|until| shared.inbox.instant(until)));
        // The turn before this one.
        core.watch_turn(member.take_ended());
        if has_turn {
            compute(core, shared, member, urgency);
        }
    }
}

/// Computes units until the step is over or another member is to have the device.
fn compute<E: Encode>(core: &mut EncoderCore<E>, shared: &Shared, member: &mut Member, urgency: Urgency) {
    let clock = || shared.inbox.now();
    let began = clock();
    let streams = member.streams();
    core.fit_units(streams.map(|_| longest_turn(urgency, streams)));
    while core.work(&clock) {
        if clock().saturating_sub(began) >= longest_turn(urgency, member.streams()) {
            member.yield_turn();
            if !member.holds_turn() {
                return;
            }
        }
    }
}

/// Answers whatever is left, even if a reply panics in turn.
fn answer_all<E: Encode>(core: &mut EncoderCore<E>, shared: &Shared, died: Option<String>) {
    let outcome = match died {
        Some(message) => {
            tracing::error!(%message, "the encoder's thread panicked");
            Err(EncodeError::Died(message))
        }
        None => Err(EncodeError::Cancelled),
    };
    shared.inbox.end_all(core, &outcome);
}
