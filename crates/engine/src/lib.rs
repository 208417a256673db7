//! The inference engine: continuous batching of many requests on one model.
//!
//! Each [`Forward`] step computes one ragged batch: a decode row of every decoding sequence, and prefill chunks of the
//! others. The engine is a plain loop on its own thread: no async, no clock in the scheduler (the time is an argument),
//! one seed a request. So a scheduling bug is reproduced from a seed, with a fake model.
//!
//! Guarantees: a request's tokens are the same alone and in any batch; a cancelled request costs at most the step it is
//! in; each accepted request gets `Done` or `Failed`, even if the engine's thread panics; memory does not grow with the
//! number of requests served.
//!
//! Deliberately absent: HTTP, tokio, templates, metric names.

mod blocks;
mod completer;
mod constraint;
mod costs;
mod detokenizer;
mod device;
pub mod encoder;
mod engine;
mod error;
mod event;
pub mod fake;
mod forward;
mod handle;
mod inbox;
mod limits;
mod meter;
mod model_runner;
mod pace;
mod params;
mod prefix;
mod queue;
mod recurrent;
#[cfg(test)]
mod recurrent_tests;
mod request;
mod rest;
mod running;
mod sample;
mod scheduler;
mod sequence;
#[cfg(test)]
mod simulator;
mod snapshots;
mod speculate;
mod speed;
mod states;
mod stats;
mod step;
mod times;
mod warming;

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
    Dry, Dynatemp, MAX_ALLOWED_IDS, MAX_BAD_WORDS, MAX_BREAKERS, MAX_LOGIT_BIAS, MAX_LOGPROBS,
    MAX_SCORED_IDS, Mirostat, MirostatVersion, Params, Xtc,
};
pub use request::{Caller, Priority, Request};
pub use speed::Speed;
pub use stats::{Stats, StepReport, Unwatched, Watch};
