//! Who runs next.
//!
//! The engine serves many requests with one model. Each [`Forward`] step computes one ragged batch: a row for every
//! sequence that decodes, and chunks of the prompts of those that do not yet. It is a plain loop on a thread of its
//! own: no async, no clock in the scheduler (the time is an argument), one seed a request. So a scheduling bug is
//! replayed from a number, with a fake model.
//!
//! What is promised: a request's tokens are the same alone and in any batch; a cancelled request costs at most the step
//! it is in; each accepted request gets `Done` or `Failed`, even if the engine's thread dies; nothing here grows
//! with the number of requests served.
//!
//! Deliberately absent: HTTP, tokio, templates, metric names.

mod blocks;
mod completer;
mod constraint;
mod costs;
mod detokenizer;
mod device;
mod engine;
mod error;
mod event;
pub mod fake;
mod forward;
mod handle;
mod limits;
mod meter;
mod model_runner;
mod pace;
mod params;
mod prefix;
mod queue;
mod request;
mod running;
mod sample;
mod scheduler;
mod sequence;
#[cfg(test)]
mod simulator;
mod speculate;
mod stats;
mod step;
mod times;

pub use constraint::{Constrain, Constraint};
pub use device::{
    Device, EngineTurns, Full, MemoryBudget, MemoryKind, MemoryUse, Reservation, TurnTotals, Urgency,
};
pub use engine::{DraftModel, Engine, Setup};
pub use error::{Error, Refused};
pub use event::{Event, FinishReason, MatchedStop, Outbox, ReceiverGone, Timings, TokenLogprobs, Usage};
pub use forward::{Detokenizer, Forward, Rows, SequenceRows, Vocabulary};
pub use handle::{Handle, MAX_STOP_BYTES, MAX_STOPS, Ticket};
pub use limits::{Limits, Speculation, Threads};
pub use params::{
    Dry, Dynatemp, MAX_ALLOWED_IDS, MAX_BAD_WORDS, MAX_BREAKERS, MAX_LOGIT_BIAS, MAX_LOGPROBS, Mirostat,
    MirostatVersion, Params, Xtc,
};
pub use request::{Caller, Priority, Request};
pub use stats::{Stats, StepReport, Unwatched, Watch};
