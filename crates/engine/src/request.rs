//! Requests: what goes into the engine.

use std::sync::Arc;
use std::time::Duration;

use crate::{Constrain, Params};

/// A request to generate text after a prompt.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Token ids, special ones included.
    pub prompt: Vec<u32>,
    /// The answer's first tokens, which another engine of the same weights generated for the same request; the answer
    /// goes on after them as it would have gone on there ([`Event::Resumed`](crate::Event::Resumed)). They count as
    /// tokens of the answer. Not with log-probabilities of the prompt or mirostat; with a temperature only with a seed.
    pub resume: Vec<u32>,
    /// Most tokens to generate; none is limited by the context only. With 0 the prompt is prefilled and no token is
    /// generated.
    pub max_tokens: Option<usize>,
    /// Sampling parameters.
    pub params: Params,
    /// Report the log-probabilities of the prompt's tokens, and of this many most likely alternatives (0 to 20). Such a
    /// prompt is computed whole, without the prefix cache.
    pub prompt_logprobs: Option<usize>,
    /// Stop strings: the answer ends before the first one.
    pub stop: Vec<String>,
    /// Stop tokens: the answer ends at the first one.
    pub stop_ids: Vec<u32>,
    /// Least tokens of the answer: end tokens, stop tokens and stop strings have no effect before. (A complete
    /// constraint ends the answer anyway.)
    pub min_tokens: usize,
    /// The stop string or the stop id that is met is part of the text.
    pub show_stop: bool,
    /// Never choose one of the model's own end tokens.
    pub ignore_end: bool,
    /// Control tokens that are part of the text all the same.
    pub shown: Vec<u32>,
    /// The constraint that the answer must match; none allows anything.
    pub constrain: Option<Arc<dyn Constrain>>,
    /// Longest time in the queue before the request fails; none is the engine's limit.
    pub max_wait: Option<Duration>,
    /// Longest time from submission to the last token, after which the request fails; none is no limit.
    pub time_limit: Option<Duration>,
    /// For whom the request is computed, and how urgently.
    pub caller: Caller,
    /// Requests share cached prefixes only with those of the same salt.
    pub cache_salt: u64,
}

/// The client and priority of a request, which decide its place in the queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Caller {
    /// Priority of the request.
    pub priority: Priority,
    /// Identity of the client; clients of one priority share the engine evenly.
    pub client: u64,
}

/// Priority class of a request. Each class gets a share, so that none starves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// A person waits for the answer.
    Interactive,
    /// No priority was given.
    #[default]
    Default,
    /// Batch work: the smallest share, preempted by more urgent requests.
    Batch,
}

impl Priority {
    /// All of them, the most urgent first.
    pub const ALL: [Priority; 3] = [Priority::Interactive, Priority::Default, Priority::Batch];

    /// The priority's name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Priority::Interactive => "interactive",
            Priority::Default => "default",
            Priority::Batch => "batch",
        }
    }

    /// Whether somebody waits for the answer: all but batch work.
    pub(crate) fn is_awaited(self) -> bool {
        self < Priority::Batch
    }

    /// Seconds of other prefill work that may come first.
    pub(crate) fn prefill_delay(self) -> f32 {
        match self {
            Priority::Interactive => 0.0,
            Priority::Default => 1.0,
            Priority::Batch => 10.0,
        }
    }

    /// Weight of the class in fair queueing.
    pub(crate) fn weight(self) -> f64 {
        match self {
            Priority::Interactive => 16.0,
            Priority::Default => 4.0,
            Priority::Batch => 1.0,
        }
    }
}
