//! Encoders: texts in, vectors or scores out, in ragged batches on a [`Device`](crate::Device).
//!
//! A [`Job`] is one request's texts. The thread of an encoder gathers texts of waiting jobs into a *step* of a bounded
//! number of tokens, without padding and without an artificial delay: a step takes what arrived while the last one ran.
//! Which texts come next is decided by `queue`; `core` computes a step in *units* of a few milliseconds and hands
//! out each text's numbers as soon as they exist. Both are plain structs with the time as an argument. `thread` adds
//! the clock and the turns on the device: between two units the turn is given to whoever comes first, so that a stream
//! of another model waits for a bounded part of its own step. See `docs/decisions/0059-encoder-steps.md`.
//!
//! Guarantees: what a text is answered with does not depend on what it is batched with, as far as the [`Encode`] keeps
//! that; each accepted job gets exactly one `done`, even if the model panics; a cancelled or expired job costs at most
//! the unit it is in; memory does not grow with the number of jobs served.
//!
//! Deliberately absent: text, tokenizers, pooling rules, the normalization of vectors.

pub(crate) mod core;
pub mod fake;
mod handle;
mod model_runner;
pub(crate) mod queue;
pub(crate) mod stats;
mod thread;

use std::time::{Duration, Instant};

pub use handle::{EncodeRefused, EncodeTicket, EncoderHandle, EncoderLimits};
pub use model_runner::EncoderRunner;
pub use stats::{EncodeWatch, EncoderStats, EncoderStepReport};
pub use thread::{Encoder, EncoderSetup};

/// Most texts of an interactive job, which comes before bulk jobs.
pub const MAX_INTERACTIVE_TEXTS: usize = 8;

/// Rows of a unit where nobody waits for the device.
pub const UNIT_ROWS: usize = 256;
/// Fewest rows of a unit that are asked for.
const MIN_UNIT_ROWS: usize = 32;

/// The tokens of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Text {
    /// Token ids, special tokens included.
    pub tokens: Vec<u32>,
    /// Token type of each token (segment of a pair); empty if all are 0.
    pub types: Vec<u8>,
    /// First tokens that are left out of pooling: those of a prompt.
    pub skip: usize,
}

/// What is computed of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Want {
    /// The pooled vector, `[width]`, not normalized.
    Dense,
    /// A vector for each token, `[tokens, width]`.
    Tokens,
    /// Weights of vocabulary entries, `[vocab]`.
    Sparse,
    /// The classifier's logits, `[labels]`.
    Logits,
    /// The token classifier's logits, `[tokens, labels]`.
    TokenLogits,
}

/// A model that encodes texts, one ragged batch at a time.
pub trait Encode: Send {
    /// Most tokens of a text.
    fn context(&self) -> usize;

    /// Token ids are below this.
    fn vocab(&self) -> usize;

    /// Most tokens of a step of several texts. A longer text is a step of its own.
    fn step_tokens(&self) -> usize;

    /// Units should have about this many rows at most from now on, as others wait for the device between two units. A
    /// unit of more rows costs less a row. It changes no number.
    fn fit_units(&mut self, _rows: usize) {}

    /// Begins a step; what was left of the one before is dropped.
    ///
    /// # Errors
    /// In words; the texts of the step fail.
    fn begin(&mut self, texts: &[&Text]) -> Result<(), String>;

    /// Computes one unit of work, a few milliseconds at most. Returns false when all layers are done.
    ///
    /// # Errors
    /// In words; the texts of the step fail.
    fn advance(&mut self) -> Result<bool, String>;

    /// Writes the numbers of the step's text with this index to `out`, which is empty. May be called for several kinds.
    ///
    /// # Errors
    /// In words: the model has no such head.
    fn output(&mut self, text: usize, want: Want, out: &mut Vec<f32>) -> Result<(), String>;
}

/// The texts of a request.
pub struct Job {
    /// Identity of the client; clients share an encoder evenly, in milliseconds.
    pub client: u64,
    /// What is computed of each text.
    pub want: Want,
    /// The texts.
    pub texts: Vec<Text>,
    /// When the job fails unless it is done; none is no limit.
    pub deadline: Option<Instant>,
    /// Where the numbers go.
    pub reply: Box<dyn Reply>,
}

/// The receiver of a job's results. Called on the encoder's thread, so its methods must not block.
pub trait Reply: Send {
    /// The numbers of the job's text with this index. Texts may come in any order, each once.
    fn text(&mut self, index: usize, values: &[f32]);

    /// Whether nobody waits for the results any more, which cancels the job.
    fn is_gone(&self) -> bool {
        false
    }

    /// The end of the job, the last call. After `Ok` each text has come.
    fn done(&mut self, outcome: Result<(), EncodeError>, costs: EncodeCosts);
}

/// The resources that a job used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EncodeCosts {
    /// Time from submission to the first step with a text of the job; to the end if there was none.
    pub queued: Duration,
    /// The job's share of the steps' time.
    pub machine: Duration,
    /// Tokens of the texts that were computed; equal texts of a step count once.
    pub tokens: usize,
    /// Texts whose numbers were delivered.
    pub texts: usize,
}

/// Why an accepted job could not be finished.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The ticket was dropped, the reply was gone, or a drain ran out of time.
    #[error("the texts were not encoded: the job was cancelled")]
    Cancelled,
    /// The job's deadline came before its end.
    #[error("the time limit is over after {done} of {texts} texts")]
    Expired {
        /// Texts that were delivered.
        done: usize,
        /// Texts of the job.
        texts: usize,
    },
    /// The queue did not move in time.
    #[error("waited {waited:?} in the queue, the limit is {limit:?}")]
    Waited {
        /// Time in the queue.
        waited: Duration,
        /// The limit.
        limit: Duration,
    },
    /// The model refused the step.
    #[error("the model failed: {0}")]
    Model(String),
    /// The model computed something that is not a number.
    #[error("number {at} of text {text} is {value}: the weights are damaged or the computation overflowed")]
    NotFinite {
        /// Index of the text.
        text: usize,
        /// Index of the first such number of its output.
        at: usize,
        /// `inf`, `-inf` or `NaN`.
        value: String,
    },
    /// The encoder's thread ended; the message is the panic's.
    #[error("the encoder has stopped: {0}")]
    Died(String),
}
