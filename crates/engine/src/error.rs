//! Errors of requests, and reasons to refuse a submission.

use std::time::Duration;

/// A request that was accepted and could not be finished, or an engine that could not start.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model computed something that is not a number.
    #[error(
        "the model's logit of token {token} at position {position} is {value}: \
         the weights are damaged or the computation overflowed"
    )]
    Logits {
        /// The first token whose logit is not finite.
        token: u32,
        /// Position of the row, from 0.
        position: usize,
        /// The logit: an infinity or NaN.
        value: f32,
    },
    /// Every token was banned by biases, or by them and a constraint.
    #[error("no token is left to choose from: logit_bias bans every one that may come next")]
    NothingLeft,
    /// The constraint on the answer failed.
    #[error("the answer's form could not be held: {0}")]
    Constraint(String),
    /// The model refused the batch.
    #[error("the model failed: {0}")]
    Model(String),
    /// The queue did not move in time.
    #[error("waited {waited:?} in the queue, the limit is {limit:?}")]
    Waited {
        /// Time in the queue.
        waited: Duration,
        /// The limit.
        limit: Duration,
    },
    /// The request's own time limit came before its end.
    #[error("the request's time limit of {limit:?} is over after {tokens} tokens of its answer")]
    Expired {
        /// The limit.
        limit: Duration,
        /// Tokens that were generated.
        tokens: usize,
    },
    /// The engine's thread ended; the message is the panic's.
    #[error("the engine has stopped: {0}")]
    Died(String),
    /// The engine could not be started.
    #[error("cannot start the engine: {0}")]
    Start(String),
}

/// Why a request was not accepted. Nothing of it remains.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The prompt leaves no space for an answer token in the context.
    #[error(
        "the prompt has {tokens} tokens and the context holds {context}, of which at least 1 is for the answer"
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens that one request may have, answer included.
        context: usize,
    },
    /// A queue is full; try again later.
    #[error(
        "{waiting} requests with {waiting_tokens} prompt tokens are waiting, which is as many as are allowed"
    )]
    Busy {
        /// Requests in the queue.
        waiting: usize,
        /// Prompt tokens in the queue.
        waiting_tokens: usize,
    },
    /// The engine is draining or has stopped.
    #[error("the engine is not taking requests any more")]
    Closed,
    /// A parameter is out of range.
    #[error("{name} is {value}, expected {expected}")]
    InvalidParam {
        /// The parameter's name in the API.
        name: &'static str,
        /// The value given.
        value: String,
        /// The accepted values, in words.
        expected: String,
    },
}
