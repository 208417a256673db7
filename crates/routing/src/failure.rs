//! Kinds of failures of an attempt, and what is known of the work that was done.

use std::time::Duration;

/// Which limit passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Until the first byte of the answer.
    FirstByte,
    /// Between two bytes of the answer.
    Idle,
    /// The request's deadline.
    Total,
}

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The request was provably not written: the connection was closed before.
    NotWritten,
    /// No connection: refused, unreachable, name not found, TLS.
    Connect,
    /// The upstream refused before working: 429, 529, or a 503 of a full queue.
    Refused {
        /// Time after which it may be asked again, if told.
        retry_after: Option<Duration>,
    },
    /// A limit passed.
    Timeout(Limit),
    /// The connection broke after the request was written.
    Reset,
    /// Another status that is an error.
    Status(u16),
    /// The upstream's content filter refused the request.
    ContentFilter,
    /// The prompt does not fit the model's context.
    ContextLength,
    /// The answer is not what its dialect says.
    MalformedStream,
    /// The answer ended without its end mark.
    Cut,
}

impl Failure {
    /// Whether the failure tells that the target is unwell, which its circuit breaker counts. Refusals close it for
    /// their time instead; what the request itself causes says nothing of the target.
    #[must_use]
    pub fn is_unwell(self) -> bool {
        match self {
            Failure::Connect | Failure::Reset | Failure::MalformedStream | Failure::Cut => true,
            Failure::Timeout(limit) => limit != Limit::Total,
            Failure::Status(status) => status >= 500 && status != 501,
            Failure::NotWritten
            | Failure::Refused { .. }
            | Failure::ContentFilter
            | Failure::ContextLength => false,
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// A whole answer.
    Answered(Answer),
    /// A failure.
    Failed(Failure),
    /// The client left, or another attempt was first.
    Cancelled,
}

/// The measured times and usage of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Answer {
    /// Seconds from the dispatch to the first token.
    pub first_token_s: f64,
    /// Seconds from the dispatch to the end.
    pub total_s: f64,
    /// Prompt tokens; 0 if not told.
    pub prompt_tokens: u64,
    /// Prompt tokens that came from the target's cache; none if not told.
    pub cached_tokens: Option<u64>,
    /// Tokens generated.
    pub output_tokens: u64,
}
