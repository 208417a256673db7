//! The contract between whoever asks and whatever answers.
//!
//! A request is an operation on a model of some name, with a [`RequestContext`]: who asks, how long it may take, what it
//! has used. Whether this machine answers or another one does is not part of the contract.
//!
//! Deliberately absent: HTTP, the engine, async runtimes.

mod client;
mod context;
mod operation;
mod output;
mod shares;

use std::future::Future;
use std::pin::Pin;

use wire::Fault;

pub use client::{Client, Owner};
pub use context::{Audit, Place, Record, RequestContext, RequestUsage, Stages, TraceParent};
pub use operation::{Classify, Embed, Generate, Operation, Prompt, Request, Rerank, Score, Tokenize};
pub use output::{
    End, Event, Events, Generation, Output, Part, PromptFacts, PromptScores, Score as TokenScore,
    ScoredToken, Token, TokenText, Tokens,
};
pub use shares::{Full, Share, Shares};

/// Something that answers requests: the models of this machine, another machine, or a choice among several.
pub trait Inference: Send + Sync {
    /// Answers a request. Dropping the future, or the output, cancels the work.
    fn submit<'a>(&'a self, request: Request) -> Submitted<'a>;

    /// What can be asked.
    fn capabilities(&self) -> Vec<Capability>;

    /// How much work there is.
    fn load(&self) -> Load;
}

/// An output that is awaited.
pub type Submitted<'a> = Pin<Box<dyn Future<Output = Result<Output, Fault>> + Send + 'a>>;

/// A model that can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    /// The names that it goes by; the first is the one that answers carry.
    pub names: Vec<String>,
    /// Tokens that one request may have, answer included; none while that is not known.
    pub context: Option<usize>,
    /// The operations that it takes, by their names ([`Operation::name`]).
    pub operations: Vec<&'static str>,
}

/// How much work there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Answers that are being computed.
    pub running: usize,
    /// Answers that wait for their turn.
    pub waiting: usize,
    /// Tokens of prompts that wait.
    pub waiting_tokens: usize,
}
