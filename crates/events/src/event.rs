//! The events.

use std::time::Duration;

/// Something that happened to the machine: to the server as a whole, to a connection, or to a request that is of no
/// model, or not yet. What a model does is a [`ModelEvent`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event {
    /// The first model is loaded and requests are taken.
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
    /// A connection was closed because the client took too little of its answer in the time for it.
    ConnectionTimedOut,
    /// A request was turned away before its model was known, or for a reason that has nothing to do with a model.
    Rejected(Rejection),
}

/// Something that a loaded model did, or a request to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ModelEvent {
    /// A request was turned away; the machine counts it too.
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
    /// The engine had a turn on the device.
    DeviceTurn {
        /// From the request for the turn to its beginning.
        waited: Duration,
        /// From its beginning to its end.
        computed: Duration,
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
    /// The encoder computed a batch of texts.
    EncodeStep {
        /// Texts that were delivered.
        texts: usize,
        /// Tokens that were computed.
        tokens: usize,
        /// How long it took, without waiting for the device.
        took: Duration,
    },
    /// A request to the encoder ended.
    EncodeFinished {
        /// Why; [`Ending::Stop`] where all texts were encoded.
        ending: Ending,
        /// Texts that were encoded.
        texts: usize,
        /// Tokens of the request.
        tokens: usize,
        /// From arrival to the end.
        total: Duration,
        /// Waiting for its first step.
        queued: Duration,
    },
}

/// Something that happened to a model as a whole, from its registration on; most of them change its [`ModelState`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LoadEvent {
    /// The load began: [`ModelState::Loading`].
    Began {
        /// Memory that is reserved for the model, until a failure or an unload.
        bytes: u64,
    },
    /// The model is loaded and takes requests: [`ModelState::Ready`].
    Loaded {
        /// From the beginning of the load.
        took: Duration,
    },
    /// The load failed: [`ModelState::Failed`].
    Failed,
    /// A request that needed the model had waited for its load, whatever came of that.
    Awaited {
        /// From the request's wish for the model to the end of the load, or to the request's own.
        waited: Duration,
    },
    /// The model takes no more requests and finishes those that it has: [`ModelState::Draining`].
    Draining,
    /// The model was unloaded: [`ModelState::Registered`].
    Unloaded(UnloadReason),
}

/// Why a model was unloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnloadReason {
    /// Another model needed its memory.
    Memory,
    /// No request used it for as long as it is kept.
    KeepAlive,
    /// A client asked for it.
    Request,
    /// The model's files changed: another generation of it answers already.
    Replaced,
    /// The model's files are gone.
    Removed,
}

impl UnloadReason {
    /// All of them, in the order of their declaration.
    pub const ALL: [UnloadReason; 5] = [
        UnloadReason::Memory,
        UnloadReason::KeepAlive,
        UnloadReason::Request,
        UnloadReason::Replaced,
        UnloadReason::Removed,
    ];

    /// The word for it, as in the metrics.
    pub fn name(self) -> &'static str {
        match self {
            UnloadReason::Memory => "memory",
            UnloadReason::KeepAlive => "keep_alive",
            UnloadReason::Request => "request",
            UnloadReason::Replaced => "replaced",
            UnloadReason::Removed => "removed",
        }
    }
}

/// Where a model stands between registration and use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelState {
    /// Known, and not in memory.
    Registered,
    /// Being loaded.
    Loading,
    /// In memory, taking requests.
    Ready,
    /// In memory, taking no more requests.
    Draining,
    /// Known, and not in memory because its last load failed.
    Failed,
}

impl ModelState {
    /// All of them, in the order of their declaration.
    pub const ALL: [ModelState; 5] = [
        ModelState::Registered,
        ModelState::Loading,
        ModelState::Ready,
        ModelState::Draining,
        ModelState::Failed,
    ];

    /// The word for it, as in the metrics.
    pub fn name(self) -> &'static str {
        match self {
            ModelState::Registered => "registered",
            ModelState::Loading => "loading",
            ModelState::Ready => "ready",
            ModelState::Draining => "draining",
            ModelState::Failed => "failed",
        }
    }
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
}

/// What is looked up of a loaded model when somebody asks for the metrics; totals are since its load.
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
    /// Snapshots of recurrent states that are kept for requests that begin alike.
    pub state_snapshots: usize,
    /// Snapshots that requests went on from since the load.
    pub state_restores: u64,
    /// Tokens that those spared, again after a preemption included.
    pub state_restored_tokens: u64,
    /// Tokens computed again since the load, as proposed tokens after them were wrong.
    pub state_replayed_tokens: u64,
    /// Tokens computed for the prefix cache since the load, while nobody asked for anything.
    pub warmed_tokens: u64,
    /// Preemptions since the load.
    pub preemptions: u64,
    /// Prompt tokens that were looked up among the kept ones since the load.
    pub prefix_queries: u64,
    /// Those of them that were found.
    pub prefix_hits: u64,
    /// Prompt rows computed since the load, again after a preemption included.
    pub prefill_rows: u64,
    /// The machine's time for prompts since the load.
    pub prompt_time: Duration,
    /// The machine's time for answers since the load.
    pub output_time: Duration,
    /// Memory that the engine has taken.
    pub memory: ModelMemory,
}

/// Memory that a model's engine has taken, by use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelMemory {
    /// For weights, in the form in which they are computed with.
    pub weights_bytes: u64,
    /// For KV blocks, those that are kept for equal prefixes included.
    pub kv_cache_bytes: u64,
    /// For recurrent states, snapshots included.
    pub state_bytes: u64,
    /// For what a step computes with.
    pub scratch_bytes: u64,
    /// For other caches.
    pub caches_bytes: u64,
}

impl ModelMemory {
    /// Uses, as labels.
    pub(crate) const USES: [&'static str; 5] = ["weights", "kv_cache", "state", "scratch", "caches"];

    /// Bytes of each of [`ModelMemory::USES`].
    pub(crate) fn bytes(&self) -> [u64; ModelMemory::USES.len()] {
        [self.weights_bytes, self.kv_cache_bytes, self.state_bytes, self.scratch_bytes, self.caches_bytes]
    }
}

impl Gauges {
    /// Adds what another engine holds and counted.
    pub(crate) fn add(&mut self, other: &Gauges) {
        self.running += other.running;
        self.waiting += other.waiting;
        self.waiting_tokens += other.waiting_tokens;
        self.kv_blocks_used += other.kv_blocks_used;
        self.kv_blocks_cached += other.kv_blocks_cached;
        self.kv_blocks_total += other.kv_blocks_total;
        self.state_snapshots += other.state_snapshots;
        self.state_restores += other.state_restores;
        self.state_restored_tokens += other.state_restored_tokens;
        self.state_replayed_tokens += other.state_replayed_tokens;
        self.warmed_tokens += other.warmed_tokens;
        self.preemptions += other.preemptions;
        self.prefix_queries += other.prefix_queries;
        self.prefix_hits += other.prefix_hits;
        self.prefill_rows += other.prefill_rows;
        self.prompt_time += other.prompt_time;
        self.output_time += other.output_time;
        self.memory.weights_bytes += other.memory.weights_bytes;
        self.memory.kv_cache_bytes += other.memory.kv_cache_bytes;
        self.memory.state_bytes += other.memory.state_bytes;
        self.memory.scratch_bytes += other.memory.scratch_bytes;
        self.memory.caches_bytes += other.memory.caches_bytes;
    }
}
