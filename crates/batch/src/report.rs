//! What a run tells: while it runs, at its end, and before it.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Every line has an answer.
    Complete,
    /// The output is written, and some lines have errors.
    SomeFailed,
    /// Stopped before the end; the same command goes on.
    Stopped(Stopped),
}

impl Outcome {
    /// The exit code of the command: 0, 3 or 4.
    pub fn exit_code(self) -> u8 {
        match self {
            Outcome::Complete => 0,
            Outcome::SomeFailed => 3,
            Outcome::Stopped(_) => 4,
        }
    }
}

/// Why a run stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Somebody asked for it.
    Cancelled,
    /// `max_cost` was spent.
    Cost,
    /// `max_time` was over.
    Time,
    /// Sixteen requests in a row got no answer after all attempts, or only statuses such as 401, 429 or 503: the fault is not
    /// theirs, and they are open still.
    Unavailable,
}

/// Tokens, summed over requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Of prompts.
    pub prompt: u64,
    /// Of these, found in the cache.
    pub cached: u64,
    /// Of answers.
    pub completion: u64,
}

impl Tokens {
    /// The share of prompts that was found in the cache, from 0 to 1.
    pub fn reuse(&self) -> f64 {
        ratio(self.cached, self.prompt)
    }
}

/// Counts of lines and requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Lines of the input, without empty ones.
    pub lines: u64,
    /// Lines that cannot be a request.
    pub malformed: u64,
    /// Lines whose request is that of an earlier line: computed once, written for each.
    pub duplicates: u64,
    /// Different requests.
    pub requests: u64,
    /// Requests with an answer.
    pub succeeded: u64,
    /// Requests that failed.
    pub failed: u64,
}

impl Counts {
    /// Requests that are still to be run.
    pub fn open(&self) -> u64 {
        self.requests.saturating_sub(self.succeeded + self.failed)
    }
}

/// How far a run is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Progress {
    /// What is being done.
    pub phase: Phase,
    /// Bytes of the input that were read, while it is read.
    pub bytes_read: u64,
    /// Counts so far.
    pub counts: Counts,
    /// Requests that this run has finished, without those of earlier runs.
    pub finished_now: u64,
    /// Requests that are running.
    pub running: u64,
    /// Attempts that failed and were made again.
    pub retries: u64,
    /// Tokens so far, of earlier runs too.
    pub tokens: Tokens,
    /// Tokens of this run.
    pub tokens_now: Tokens,
    /// What was spent so far, in millionths; 0 without prices.
    pub cost: u64,
    /// The share of bytes of prompts that the order lets the cache find, in the windows so far.
    pub predicted_reuse: f64,
    /// Time since this run began.
    pub elapsed: Duration,
}

/// What a run is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// The input is read and checked.
    #[default]
    Reading,
    /// Requests are run.
    Running,
    /// The output is written.
    Writing,
}

/// Called about once a second and at each change of phase. Must not block.
pub type Watcher = std::sync::Arc<dyn Fn(&Progress) + Send + Sync>;

/// What a run did.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// Counts of lines and requests, of earlier runs too.
    pub counts: Counts,
    /// Requests that were already finished when this run began.
    pub resumed: u64,
    /// Requests that this run finished.
    pub finished_now: u64,
    /// Attempts that failed and were made again.
    pub retries: u64,
    /// Tokens, of earlier runs too.
    pub tokens: Tokens,
    /// What was spent, in millionths; `None` without prices.
    pub cost: Option<u64>,
    /// The share of bytes of prompts that the order let the cache find. The real share is `tokens.reuse()`.
    pub predicted_reuse: f64,
    /// Time that this run took.
    pub elapsed: Duration,
    /// The last fault of a run that stopped as [`Stopped::Unavailable`].
    pub last_fault: Option<String>,
    /// Whether the output was complete before this run, which did nothing.
    pub already_complete: bool,
}

/// What a run would do.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Counts of lines and requests.
    pub counts: Counts,
    /// Bytes of the input.
    pub bytes: u64,
    /// Tokens of the prompts of different requests.
    pub prompt_tokens: u64,
    /// Whether `prompt_tokens` is an estimate: a quarter of the bytes.
    pub estimated: bool,
    /// The sum of the most tokens that answers may have, over requests that tell it.
    pub max_completion_tokens: u64,
    /// Requests that do not tell the most tokens of their answers.
    pub unlimited: u64,
    /// The share of bytes of prompts that the order lets the cache find, from 0 to 1.
    pub predicted_reuse: f64,
    /// The first faults of lines, with their numbers from 1; at most 20.
    pub faults: Vec<(u64, String)>,
}

/// `part / whole`, or 0 of nothing.
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
