//! The events.

use std::time::Duration;

/// Something that happened to the server, to a request or to the engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event {
    /// The model is loaded and requests are taken.
    Ready {
        /// From the start of the process.
        after: Duration,
    },
    /// The server takes no more requests.
    Draining,
    /// An HTTP request was answered; for a stream, its headers were sent.
    HttpAnswered {
        /// The route's pattern, never the path as sent: labels must not grow with input.
        handler: &'static str,
        /// The method, `OTHER` if it is not a usual one.
        method: &'static str,
        /// The status.
        status: u16,
        /// From the request's head to the answer's.
        took: Duration,
    },
    /// A connection was opened.
    Connected,
    /// A connection was closed.
    Disconnected,
    /// A connection was turned away because as many are open as are allowed.
    ConnectionRefused,
    /// A request was turned away.
    Rejected(Rejection),
    /// A stream's reader fell too far behind and was cut off.
    SlowReader,
    /// The first token of an answer.
    FirstToken {
        /// From the request's arrival.
        after: Duration,
    },
    /// A later token of an answer.
    NextToken {
        /// From the token before.
        after: Duration,
    },
    /// The engine computed a batch.
    Step {
        /// Rows in it: prompt tokens and decoded tokens.
        rows: usize,
        /// Tokens of answers that it gave.
        decoded: usize,
        /// Bytes of weights that it read; 0 if nobody knows.
        weight_bytes: u64,
        /// Whether answers went on in it while prompts were read beside them.
        mixed: bool,
        /// How long it took.
        took: Duration,
    },
    /// A step verified tokens that were proposed for one answer ahead of the model.
    Verified {
        /// How many were proposed, in order.
        proposed: usize,
        /// How many of them, from the first on, were what the model said.
        accepted: usize,
    },
    /// One answer ended.
    Finished {
        /// Why.
        ending: Ending,
        /// Tokens of the prompt.
        prompt_tokens: usize,
        /// Those of them that were cached.
        cached_tokens: usize,
        /// Tokens generated.
        generated_tokens: usize,
        /// The limit that the request set.
        max_tokens: Option<usize>,
        /// From arrival to the end.
        total: Duration,
        /// Waiting for a place.
        queued: Duration,
        /// From its first row to its first token.
        prefill: Duration,
        /// From the first token to the last.
        decode: Duration,
        /// How often it lost its place.
        preemptions: usize,
    },
    /// All answers to one prompt ended.
    GroupFinished {
        /// How many there were.
        n: usize,
        /// Tokens of the longest.
        longest_tokens: usize,
    },
}

/// Why an answer ended, by vLLM's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// A stop string or token, or the model's end.
    Stop,
    /// The token limit or the context.
    Length,
    /// The client left, or the server drained.
    Abort,
    /// The engine failed.
    Error,
}

impl Ending {
    /// All of them, so that each series exists from the start.
    pub const ALL: [Ending; 4] = [Ending::Stop, Ending::Length, Ending::Abort, Ending::Error];

    /// The word for it, as in the metrics.
    pub fn name(self) -> &'static str {
        match self {
            Ending::Stop => "stop",
            Ending::Length => "length",
            Ending::Abort => "abort",
            Ending::Error => "error",
        }
    }
}

/// Why a request was turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// As many requests wait as are allowed.
    QueuedRequests,
    /// As many prompt tokens wait as are allowed.
    QueuedTokens,
    /// It would have waited longer than is allowed.
    QueuedTime,
    /// As many bytes of bodies are being read as are allowed.
    BodyMemory,
    /// A body is larger than is allowed.
    BodySize,
    /// A body did not arrive in time.
    BodyTime,
    /// A body has more JSON values than are parsed.
    BodyValues,
    /// As many requests wait to be parsed and tokenized as are allowed, or it waited too long for that.
    Preparation,
    /// The prompt is longer than the context.
    Context,
    /// As many bytes of answers wait for their readers as are allowed.
    AnswerMemory,
    /// The model is loading.
    Loading,
    /// The server is on its way out.
    Draining,
    /// The key was missing or wrong.
    Unauthorized,
    /// The key has used up one of its own limits.
    KeyLimit,
}

impl Rejection {
    /// All of them.
    pub const ALL: [Rejection; 14] = [
        Rejection::QueuedRequests,
        Rejection::QueuedTokens,
        Rejection::QueuedTime,
        Rejection::BodyMemory,
        Rejection::BodySize,
        Rejection::BodyTime,
        Rejection::BodyValues,
        Rejection::Preparation,
        Rejection::Context,
        Rejection::AnswerMemory,
        Rejection::Loading,
        Rejection::Draining,
        Rejection::Unauthorized,
        Rejection::KeyLimit,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Rejection::QueuedRequests => "max_num_queued_reqs",
            Rejection::QueuedTokens => "max_num_queued_tokens",
            Rejection::QueuedTime => "max_wait",
            Rejection::BodyMemory => "body_memory",
            Rejection::BodySize => "body_size",
            Rejection::BodyTime => "body_time",
            Rejection::BodyValues => "body_values",
            Rejection::Preparation => "preparation",
            Rejection::Context => "context",
            Rejection::AnswerMemory => "answer_memory",
            Rejection::Loading => "loading",
            Rejection::Draining => "draining",
            Rejection::Unauthorized => "unauthorized",
            Rejection::KeyLimit => "key_limit",
        }
    }

    /// vLLM counts these two under its own name.
    pub(crate) fn is_admission(self) -> bool {
        matches!(self, Rejection::QueuedRequests | Rejection::QueuedTokens)
    }
}

/// What is looked up when somebody asks for the metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Requests being computed.
    pub running: usize,
    /// Requests waiting.
    pub waiting: usize,
    /// Prompt tokens waiting.
    pub waiting_tokens: usize,
    /// KV blocks in use.
    pub kv_blocks_used: usize,
    /// KV blocks that no request holds and that are kept for those that begin alike.
    pub kv_blocks_cached: usize,
    /// KV blocks there are.
    pub kv_blocks_total: usize,
    /// Preemptions since the start.
    pub preemptions: u64,
    /// Prompt tokens that were looked up among the kept ones since the start.
    pub prefix_queries: u64,
    /// Those of them that were found.
    pub prefix_hits: u64,
    /// Prompt rows computed since the start, again after a preemption included.
    pub prefill_rows: u64,
}
