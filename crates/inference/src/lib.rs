//! The interface between the API layers and what answers requests: a local model, another machine, or a router.
//!
//! A request is an operation on a named model, with a [`RequestContext`]: the client, the time limit, and the resources
//! used. Whether this machine or another one answers is not part of the interface.
//!
//! Deliberately absent: HTTP, the engine, async runtimes.

mod client;
mod context;
mod listener;
mod operation;
mod output;
mod shares;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use wire::Fault;
use wire::oip::{ModelConfig, Signature};

pub use client::{Client, Owner};
pub use context::{Audit, Place, Record, RequestContext, RequestUsage, Stages, TraceParent};
pub use listener::Listener;
pub use operation::{
    Aggregation, Classify, ClassifyTokens, Embed, EmbedKind, Generate, Infer, InputPrompt, Length, Operation,
    Prompt, Request, Rerank, Score, TextInput, Tokenize, Truncation,
};
pub use output::{
    Chunk, Chunks, Embedding, Encoded, End, Entity, Event, Events, Generation, Inferred, InputLength, Output,
    Part, PromptFacts, PromptScores, Score as TokenScore, ScoredToken, Token, TokenText, Tokens,
};
pub use shares::{LimitReached, Share, Shares};

/// A backend that answers requests: the models of this machine, another machine, or a router over several.
pub trait Inference: Send + Sync {
    /// Submits a request. Dropping the future, or the output, cancels the work.
    fn submit<'a>(&'a self, request: Request) -> Submitted<'a>;

    /// The models that can be asked, with their operations.
    fn capabilities(&self) -> Vec<Capability>;

    /// The current load.
    fn load(&self) -> Load;
}

/// The future of a submitted request.
pub type Submitted<'a> = Pin<Box<dyn Future<Output = Result<Output, Fault>> + Send + 'a>>;

/// A model and its operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    /// The model's names; answers carry the first.
    pub names: Vec<String>,
    /// Context length: most tokens of prompt and answer together; none while it is not known.
    pub context: Option<usize>,
    /// Names of the operations that the model supports ([`Operation::name`]).
    pub operations: Vec<&'static str>,
    /// What is known of an encoder; none for a generating model, or while the model is not loaded.
    pub encoder: Option<Arc<EncoderFacts>>,
    /// The tensors that the model takes and gives for [`Infer`]; none while the model is not loaded.
    pub signature: Option<Arc<Signature>>,
    /// The configuration that the model was given, if any; none while the model is not loaded.
    pub config: Option<Arc<ModelConfig>>,
}

/// The facts of an encoder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EncoderFacts {
    /// How dense vectors are pooled: `cls`, `mean`, `max`, `last`, …, joined by `+`; none if the model makes none.
    pub pooling: Option<String>,
    /// Numbers of a dense vector; 0 if the model makes none.
    pub dimensions: usize,
    /// The classifier's labels by index; empty without a classifier.
    pub labels: Vec<String>,
    /// Names of the prompts of the model's file.
    pub prompts: Vec<String>,
    /// Most tokens of an input.
    pub max_tokens: usize,
    /// How weights are computed: `int8`, `bf16` or `f32`.
    pub precision: &'static str,
    /// See [`Encoded::fingerprint`].
    pub fingerprint: Arc<str>,
}

/// Counts of running and waiting work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Answers being computed.
    pub running: usize,
    /// Answers in the queue.
    pub waiting: usize,
    /// Prompt tokens in the queue.
    pub waiting_tokens: usize,
}
