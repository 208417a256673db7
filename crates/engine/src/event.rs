//! The engine's output: the events of a request.

use std::time::Duration;

use crate::Error;

/// An event of a request. `Done` or `Failed` is the last one.
///
/// The service turns these into the events of the contract (`inference::Event`), where text is split into parts.
#[derive(Debug, Clone)]
pub enum Event {
    /// Log-probabilities of the prompt, before the first token, if
    /// [`Request::prompt_logprobs`](crate::Request::prompt_logprobs) requests them.
    Prompt {
        /// One for each token of the prompt but the first.
        logprobs: Vec<TokenLogprobs>,
    },
    /// The tokens of [`Request::resume`](crate::Request::resume), before all other events, if there are some.
    Resumed {
        /// Each token with the text that it completes, as its [`Event::Token`] had it.
        tokens: Vec<(u32, String)>,
    },
    /// A generated token.
    Token {
        /// Text that is complete now: whole characters that cannot begin a stop string. Often empty.
        text: String,
        /// The token; an end token comes here too, with empty text.
        id: u32,
        /// Log-probabilities, if [`Params::logprobs`](crate::Params::logprobs) requests them.
        logprobs: Option<TokenLogprobs>,
    },
    /// The end.
    Done {
        /// The rest of the text, which was held back until now.
        text: String,
        /// Why the answer ended.
        reason: FinishReason,
        /// The stop string or token that matched; none for other endings, including an end token.
        matched_stop: Option<MatchedStop>,
        /// Token counts.
        usage: Usage,
        /// Where the time went.
        timings: Timings,
    },
    /// The request could not go on.
    Failed {
        /// The error.
        error: Error,
        /// Usage up to the failure, which is charged.
        usage: Usage,
        /// Where the time went.
        timings: Timings,
    },
}

/// The stop string or token that ended an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MatchedStop {
    /// One of [`Request::stop_ids`](crate::Request::stop_ids).
    Id(u32),
    /// One of [`Request::stop`](crate::Request::stop).
    Text(String),
}

/// The log-probability of a generated or prompt token, from the model's logits before any sampler.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    /// Natural logarithm of the token's probability.
    pub logprob: f32,
    /// Rank of the token among all tokens, from 1; equally likely tokens share a rank.
    pub rank: usize,
    /// The likeliest tokens and theirs, best first.
    pub top: Vec<(u32, f32)>,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinishReason {
    /// An end token, a stop id or a stop string.
    Stop,
    /// `max_tokens`, or the context is full.
    Length,
    /// The ticket was dropped, the outbox was gone, or a drain ran out of time.
    Cancelled,
}

impl FinishReason {
    /// `stop`, `length` or `cancelled`.
    pub fn name(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::Cancelled => "cancelled",
        }
    }
}

/// Resources that a request used: tokens, and its share of the machine's time. The shares of all requests, the time
/// waiting for the device and the idle time sum to the engine's lifetime (see [`Stats`](crate::Stats)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens generated, an end token and those of [`Request::resume`](crate::Request::resume) included.
    pub completion_tokens: usize,
    /// Tokens of [`Request::resume`](crate::Request::resume).
    pub resumed_tokens: usize,
    /// Tokens of the prompt that the prefix cache had.
    pub cached_tokens: usize,
    /// Share of the steps' time for rows of the prompt, and of rows computed again after a preemption.
    pub prompt_time: Duration,
    /// Share of the steps' time for the answer's rows, including proposed ones, and the time to sample its tokens.
    pub completion_time: Duration,
}

/// A request's time in the engine, by phase; the parts sum to the whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings {
    /// Time from submission to the first step with a row of the request.
    pub queued: Duration,
    /// From there to the first token.
    pub prefill: Duration,
    /// From the first token to the last.
    pub decode: Duration,
    /// Number of preemptions: the request lost its KV blocks and was recomputed.
    pub preemptions: usize,
}

/// Where a request's events go.
pub trait Outbox: Send {
    /// Takes an event without ever blocking. [`ReceiverGone`] cancels the request.
    fn put(&mut self, event: Event) -> Result<(), ReceiverGone>;

    /// Whether the receiver is known to have left: work that has not begun may then be dropped.
    fn is_gone(&self) -> bool {
        false
    }
}

/// The receiver of an outbox has left, or has fallen too far behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiverGone;

/// An unbounded channel is an outbox: a request's events are bounded by its `max_tokens`.
impl Outbox for std::sync::mpsc::Sender<Event> {
    fn put(&mut self, event: Event) -> Result<(), ReceiverGone> {
        self.send(event).map_err(|_| ReceiverGone)
    }
}
