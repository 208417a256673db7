//! The types of the public API: requests, responses and errors of all dialects.
//!
//! A request body is parsed in two steps. First as JSON (`serde_json`, which limits nesting to 128 levels). Then each
//! supported field is read through `fields`, so that an error names the field in `param`, and the value and the limit
//! in its message. Unknown fields are ignored, as OpenAI's server does. Fields that other servers support and this one
//! does not are errors ([`request_fields`]), because silently dropping an option changes the answer.
//!
//! Deliberately absent: HTTP, clocks, random ids, tokens of any model. The `server` crate supplies those.

pub mod anthropic;
pub mod bodies;
pub mod chat;
pub mod chunk;
pub mod cohere;
pub mod completion;
pub mod embeddings;
pub mod entities;
pub mod error;
mod fields;
pub mod guided;
pub mod handling;
pub mod huggingface;
pub mod ids;
pub mod inputs;
pub mod json;
pub mod limits;
pub mod llamacpp;
pub mod logprobs;
pub mod message;
pub mod models;
pub mod node;
pub mod numbers;
pub mod oip;
pub mod ollama;
pub mod openapi;
pub mod request_fields;
pub mod rerank;
pub mod responses;
pub mod routes;
mod samplers;
pub mod sampling;
pub mod scan;
mod scores;
pub mod sse;
pub mod tei;
pub mod tgi;
mod thinking;
pub mod tokens;
pub mod usage;
pub mod vectors;
pub mod vllm_pooling;
mod warnings;

pub use chat::ChatRequest;
pub use completion::CompletionRequest;
pub use error::Fault;
pub use guided::Guided;
pub use handling::{Handling, Priority};
pub use ids::{Ids, Resume, StopReason, Truncate};
pub use responses::ResponsesRequest;
pub use sampling::Sampling;
pub use usage::{Cost, Currency, EncoderUsage, Usage};
