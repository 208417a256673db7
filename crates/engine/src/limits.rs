//! The bounds of an engine, and of one step.

use std::time::Duration;

use kernels::KvDtype;

use crate::recurrent::SnapshotSpacing;

/// Limits of an engine, which bound all of its memory.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Most running requests, of those that somebody waits for; as many of batch work may rest beside them.
    pub max_running: usize,
    /// Most requests waiting; past it a submission is refused as [`crate::Refused::Busy`].
    pub max_queued: usize,
    /// Most prompt tokens waiting, all requests together; past it [`crate::Refused::Busy`].
    pub max_queued_tokens: usize,
    /// Most tokens of prompt and answer of one request; 0 is what the model was trained for.
    pub context: usize,
    /// Memory for the KV cache, bytes; 0 is enough for one full context.
    pub kv_bytes: u64,
    /// Storage type of the KV cache; none is the fastest for the tier.
    pub kv_dtype: Option<KvDtype>,
    /// Memory for the recurrent states of a model that has such, bytes: those of running requests, which take what they
    /// need, and snapshots for requests with the same prefix and for speculation. 0 is enough for `max_running` of each.
    pub state_bytes: u64,
    /// Most prompt rows in one step.
    pub prefill_chunk: usize,
    /// Longest time between two tokens of a running answer while prompts are prefilled.
    pub max_stall: Duration,
    /// Whether KV blocks of ended requests are cached for requests with the same prefix.
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
            state_bytes: 0,
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
    pub(crate) fn bounds(&self) -> StepBounds {
        StepBounds {
            max_running: self.max_running,
            prefill_chunk: self.prefill_chunk,
            max_stall: self.max_stall,
            speculation: self.speculation,
            prompt_logits: PROMPT_LOGIT_ROWS,
            snapshots: SNAPSHOT_SPACING,
        }
    }

    /// How many recurrent states of `bytes` bytes each the engine keeps; 0 for a model without. Fewer than 1 is an
    /// error of [`Engine::start_on`](crate::Engine::start_on), fewer than `max_running` means that fewer requests run
    /// at once.
    pub fn states(&self, bytes: u64) -> usize {
        match (bytes, self.state_bytes) {
            (0, _) => 0,
            (_, 0) if self.prefix_cache || self.speculation.tokens > 0 => self.max_running.saturating_mul(2),
            (_, 0) => self.max_running,
            (bytes, all) => usize::try_from(all / bytes).unwrap_or(usize::MAX),
        }
        .min(MAX_STATES)
    }

    /// Most rows of one step: what the model's buffers are sized for.
    pub fn max_rows(&self) -> usize {
        self.bounds().max_rows()
    }

    /// Most running requests: `max_running`, and as many of batch work that rests or ends beside them.
    pub fn max_sequences(&self) -> usize {
        self.bounds().max_sequences()
    }

    /// Most rows of one step whose logits are computed.
    pub fn max_logit_rows(&self) -> usize {
        self.bounds().max_logit_rows()
    }
}

/// Methods of speculative decoding. They change speed, never text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speculation {
    /// Prompt lookup: propose the tokens that followed the last ones at an earlier match in the same prompt and answer.
    pub lookup: bool,
    /// Most tokens proposed for a sequence in a step; at most 16, 0 for none.
    pub tokens: usize,
    /// Propose all available tokens, whether it pays or not: for tests and measurements.
    pub always: bool,
}

impl Speculation {
    /// Nothing is proposed.
    pub const OFF: Speculation = Speculation { lookup: false, tokens: 0, always: false };
    /// Most tokens that can be proposed for a sequence in a step.
    pub const MAX_TOKENS: usize = 16;
    /// Most proposed rows in a step, all sequences together: from some 16 rows on products are bound by arithmetic.
    const MAX_ROWS: usize = 16;

    /// Most proposed rows in a step.
    pub(crate) fn max_rows(&self) -> usize {
        if self.tokens == 0 { 0 } else { Speculation::MAX_ROWS }
    }
}

impl Default for Speculation {
    fn default() -> Speculation {
        Speculation::OFF
    }
}

/// [`StepBounds::prompt_logits`] of an engine, all prompts of a step together: 20 MB for a vocabulary of 152,000. With
/// fewer rows the weights would be read more often than arithmetic needs.
pub(crate) const PROMPT_LOGIT_ROWS: usize = 32;

/// Most recurrent states of an engine, whatever memory there is: numbers below `u32::MAX`, which means none.
const MAX_STATES: usize = 1 << 20;

/// [`StepBounds::snapshots`] of an engine. An interval of 512 tokens takes seconds to compute and its snapshot
/// milliseconds to copy. Where a step of its own is needed, that takes as long as some 16 rows of a prompt, so that a
/// snapshot that spares fewer than 64 is worth little.
const SNAPSHOT_SPACING: SnapshotSpacing = SnapshotSpacing { every: 512, least: 64 };

/// How much fits in a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepBounds {
    /// Most running sequences that somebody waits for; most running ones when batch work starts.
    pub(crate) max_running: usize,
    /// Most prefill rows in a step without decode rows.
    pub(crate) prefill_chunk: usize,
    /// Longest time between two tokens of a running answer.
    pub(crate) max_stall: Duration,
    pub(crate) speculation: Speculation,
    /// Most rows with logits for the log-probabilities of prompts, at least 1.
    pub(crate) prompt_logits: usize,
    /// Distances between snapshots of recurrent states.
    pub(crate) snapshots: SnapshotSpacing,
}

impl StepBounds {
    /// The same bounds for a model with `states` recurrent states, of which each running sequence has one; 0 for a model
    /// without.
    pub(crate) fn with_states(self, states: usize) -> StepBounds {
        if states == 0 { self } else { StepBounds { max_running: self.max_running.min(states), ..self } }
    }

    /// Most running sequences: those that somebody waits for, and batch work that started before them.
    pub(crate) fn max_sequences(&self) -> usize {
        self.max_running.saturating_mul(2)
    }

    /// Most rows a step can have.
    pub(crate) fn max_rows(&self) -> usize {
        // Steps with prefill rows have no proposals. Few steps have rows of more than `max_running` sequences, which share
        // the room for prompts.
        let beside = self.prefill_chunk.max(self.speculation.max_rows() + self.max_running);
        self.max_running + beside
    }

    /// Most rows of a step with logits.
    pub(crate) fn max_logit_rows(&self) -> usize {
        // Steps with proposals have no rows for a prompt's log-probabilities.
        self.max_sequences() + self.speculation.max_rows().max(self.prompt_logits)
    }
}
