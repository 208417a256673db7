//! The public API on paper: what a request may say, what an answer looks like, what an error is.
//!
//! A request body goes through two doors. First it must be JSON (`serde_json`, which bounds nesting at 128 levels);
//! then every field this server knows is read by hand through `fields`, so that a bad value is answered with the
//! field's own name in `param` and with the value and the limit in the message. Fields nobody knows are ignored, as
//! OpenAI's server does; fields that are known elsewhere but not built here are refused ([`request_fields`]), because an
//! option that is silently dropped changes the answer without saying so.
//!
//! Deliberately absent: HTTP, clocks, random ids, tokens of any model. The `server` crate supplies those.

pub mod anthropic;
pub mod bodies;
pub mod chat;
pub mod completion;
pub mod error;
mod fields;
pub mod guided;
pub mod handling;
pub mod ids;
pub mod json;
pub mod limits;
pub mod llamacpp;
pub mod logprobs;
pub mod message;
pub mod models;
pub mod numbers;
pub mod ollama;
pub mod openapi;
pub mod request_fields;
pub mod responses;
pub mod routes;
mod samplers;
pub mod sampling;
pub mod scan;
pub mod sse;
pub mod tgi;
mod thinking;
pub mod tokens;
pub mod usage;
mod warnings;

pub use chat::ChatRequest;
pub use completion::CompletionRequest;
pub use error::Fault;
pub use guided::Guided;
pub use handling::{Handling, Priority};
pub use ids::{Ids, StopReason, Truncate};
pub use responses::ResponsesRequest;
pub use sampling::Sampling;
pub use usage::{Cost, Currency, Usage};
