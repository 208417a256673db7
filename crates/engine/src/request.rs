//! What goes into the engine and what comes out of it.

use std::sync::Arc;
use std::time::Duration;

use kernels::KvDtype;

use crate::scheduler::{Bounds, PROMPT_LOGIT_ROWS};
use crate::{Constrain, Error, Params, Speculation};

/// One text to continue.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Token ids, special ones included.
    pub prompt: Vec<u32>,
    /// Most tokens to generate; none is as many as the context has room for. With 0 the prompt is read and nothing chosen.
    pub max_tokens: Option<usize>,
    /// How tokens are chosen.
    pub params: Params,
    /// Report the log-probabilities of the prompt's tokens, and of so many likeliest ones at each (0 to 20). Such a prompt is
    /// computed whole, whatever is remembered of it.
    pub prompt_logprobs: Option<usize>,
    /// The answer ends before any of these; they are not part of the text.
    pub stop: Vec<String>,
    /// The answer ends at any of these tokens.
    pub stop_ids: Vec<u32>,
    /// Choose no end token and no stop id, and look for no stop string, in so many first tokens. (A form that is complete
    /// ends the answer all the same.)
    pub min_tokens: usize,
    /// The stop string or the stop id that is met is part of the text.
    pub show_stop: bool,
    /// Never choose one of the model's own end tokens.
    pub ignore_end: bool,
    /// Control tokens that are part of the text all the same.
    pub shown: Vec<u32>,
    /// What the answer must be like; none is anything. Such a request gets no tokens guessed ahead.
    pub constrain: Option<Arc<dyn Constrain>>,
    /// Longest time in the queue before the request fails; none is the engine's limit.
    pub max_wait: Option<Duration>,
    /// Longest time from submission to the last token, after which the request fails; none is no limit.
    pub time_limit: Option<Duration>,
    /// Who asks, and how urgently.
    pub caller: Caller,
    /// Requests share remembered beginnings only with those of the same salt.
    pub cache_salt: u64,
}

/// For whom a request is computed: what the order of the queue goes by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Caller {
    /// How urgent it is.
    pub priority: Priority,
    /// Who sent it, as a number; callers of one priority share the engine evenly.
    pub client: u64,
}

/// How urgent a request is. Each class gets its share, so that none starves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// Somebody waits at a screen.
    Interactive,
    /// Nothing was said.
    #[default]
    Default,
    /// Nobody waits; runs in what others leave, and loses its place to them.
    Batch,
}

impl Priority {
    /// All of them, the most urgent first.
    pub const ALL: [Priority; 3] = [Priority::Interactive, Priority::Default, Priority::Batch];

    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Priority::Interactive => "interactive",
            Priority::Default => "default",
            Priority::Batch => "batch",
        }
    }

    /// Seconds of work of others that may come first when prompts are read.
    pub(crate) fn patience(self) -> f32 {
        match self {
            Priority::Interactive => 0.0,
            Priority::Default => 1.0,
            Priority::Batch => 10.0,
        }
    }

    /// Its share of starts beside the others'.
    pub(crate) fn weight(self) -> f64 {
        match self {
            Priority::Interactive => 16.0,
            Priority::Default => 4.0,
            Priority::Batch => 1.0,
        }
    }
}

/// What happened to a request. After `Done` or `Failed` nothing follows.
#[derive(Debug, Clone)]
pub enum Event {
    /// The prompt has been read: before the first token, if [`Request::prompt_logprobs`] asked for it.
    Prompt {
        /// One for each of its tokens but the first, which nothing comes before.
        logprobs: Vec<TokenLogprobs>,
    },
    /// One more token.
    Token {
        /// Text that is certain now: whole characters, and no beginning of a stop string. Often empty.
        text: String,
        /// The token; an end token comes here too, with empty text.
        id: u32,
        /// If [`Params::logprobs`] asked for it.
        logprobs: Option<TokenLogprobs>,
    },
    /// The end.
    Done {
        /// Text that was held back until now.
        text: String,
        /// Why it ended.
        reason: FinishReason,
        /// Which of the request's stops was met; none if it ended for another reason, an end token among them.
        met: Option<Met>,
        /// Token counts.
        usage: Usage,
        /// Where the time went.
        timings: Timings,
    },
    /// The request could not go on.
    Failed {
        /// Why.
        error: Error,
        /// What it used until then: the engine worked for it all the same.
        usage: Usage,
        /// Where the time went.
        timings: Timings,
    },
}

/// A stop of the request's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Met {
    /// One of [`Request::stop_ids`].
    Id(u32),
    /// One of [`Request::stop`].
    Text(String),
}

/// The log-probability of a token, chosen or given, from the model's own logits before any sampler touched them.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    /// Natural logarithm of the token's probability.
    pub logprob: f32,
    /// Its place among all tokens, from 1; as likely ones share it.
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

/// What a request used: tokens, and its share of the machine's time. All requests' shares and the idle time sum to the
/// engine's life (see [`crate::Stats`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens generated, an end token included.
    pub completion_tokens: usize,
    /// Tokens of the prompt whose keys and values were there already.
    pub cached_tokens: usize,
    /// Share of the steps' time for rows of the prompt, and of rows computed again after a preemption.
    pub prompt_time: Duration,
    /// Share of the steps' time for the answer's rows, guessed ones included, and the time to choose its tokens.
    pub completion_time: Duration,
}

/// Where a request's time went; the parts sum to its life in the engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings {
    /// From submission to the first step that held one of its rows.
    pub queued: Duration,
    /// From there to the first token.
    pub prefill: Duration,
    /// From the first token to the last.
    pub decode: Duration,
    /// How often it lost its KV blocks to an older request and was computed again.
    pub preemptions: usize,
}

/// Where a request's events go.
pub trait Outbox: Send {
    /// Takes an event without ever blocking. [`Gone`] cancels the request.
    fn put(&mut self, event: Event) -> Result<(), Gone>;
}

/// Nobody reads this outbox any more (or its reader has fallen too far behind).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

/// An unbounded channel is an outbox: a request's events are bounded by its `max_tokens`.
impl Outbox for std::sync::mpsc::Sender<Event> {
    fn put(&mut self, event: Event) -> Result<(), Gone> {
        self.send(event).map_err(|_| Gone)
    }
}

/// Bounds of an engine. Everything it holds is bounded by one of these.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Most requests computed at once.
    pub max_running: usize,
    /// Most requests waiting; past it a submission is refused as [`crate::Refused::Busy`].
    pub max_queued: usize,
    /// Most prompt tokens waiting, all requests together; past it [`crate::Refused::Busy`].
    pub max_queued_tokens: usize,
    /// Most tokens of prompt and answer of one request; 0 is what the model was trained for.
    pub context: usize,
    /// Memory for keys and values, bytes; 0 is room for one full context.
    pub kv_bytes: u64,
    /// How keys and values are kept; none is the fastest for the tier.
    pub kv_dtype: Option<KvDtype>,
    /// Most prompt rows in one step.
    pub prefill_chunk: usize,
    /// Longest that a running stream should wait for its next token while prompts are read beside it.
    pub max_stall: Duration,
    /// Whether the keys and values of what ended are remembered for requests that begin alike.
    pub prefix_cache: bool,
    /// Longest time in the queue.
    pub max_wait: Duration,
    /// Whether and how tokens are proposed ahead of the model.
    pub speculation: Speculation,
    /// How many of the pool's threads compute.
    pub threads: Threads,
}

/// Threads for each kind of step. More is not always faster: decoding waits for memory, prompts for arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Threads {
    /// For steps of few rows; 0 is all of the pool.
    pub decode: usize,
    /// For steps with a prompt; 0 is all of the pool.
    pub prefill: usize,
}

impl Threads {
    /// Most rows of a step that decodes only, as seen here: from some 16 rows on products are bound by arithmetic.
    const FEW: usize = 16;

    /// How many for a step of `rows`, of a pool of `all`.
    pub(crate) fn for_rows(self, rows: usize, all: usize) -> usize {
        let wished = if rows <= Threads::FEW { self.decode } else { self.prefill };
        if wished == 0 { all } else { wished.min(all) }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_running: 8,
            max_queued: 64,
            max_queued_tokens: 1 << 20,
            context: 0,
            kv_bytes: 0,
            kv_dtype: None,
            prefill_chunk: 256,
            max_stall: Duration::from_millis(100),
            prefix_cache: true,
            max_wait: Duration::from_secs(300),
            speculation: Speculation::OFF,
            threads: Threads::default(),
        }
    }
}

impl Limits {
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds {
            max_running: self.max_running,
            prefill_chunk: self.prefill_chunk,
            max_stall: self.max_stall,
            speculation: self.speculation,
            prompt_logits: PROMPT_LOGIT_ROWS,
        }
    }

    /// Most rows of one step: what the model's buffers are sized for.
    pub fn max_rows(&self) -> usize {
        self.bounds().max_rows()
    }

    /// Most rows of one step whose logits are computed.
    pub fn max_logit_rows(&self) -> usize {
        self.bounds().max_logit_rows()
    }
}
