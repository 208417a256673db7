//! A batch: many jobs that were accepted together and are answered together.

use crate::job::Usage;
use crate::time::Millis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which API made a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchKind {
    /// OpenAI's `/v1/batches`: lines of a file.
    OpenAi,
    /// Anthropic's `/v1/messages/batches`: requests of a body.
    Anthropic,
}

/// Where a batch stands, in OpenAI's words. Anthropic's are derived: `canceling` while cancelling, `ended` once terminal,
/// else `in_progress`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchStatus {
    /// Its lines are checked and become jobs.
    Validating,
    /// Its lines are run.
    InProgress,
    /// Every line has ended; the files are written.
    Finalizing,
    /// Ended: the files can be read.
    Completed,
    /// Ended: the input file is at fault, and nothing was run.
    Failed,
    /// Ended: lines that were open when its time was over are expired.
    Expired,
    /// Asked to stop; lines that run are stopped.
    Cancelling,
    /// Ended: what was finished before can be read.
    Cancelled,
}

impl BatchStatus {
    /// Whether the batch has ended.
    pub fn is_terminal(self) -> bool {
        use BatchStatus::{Cancelled, Completed, Expired, Failed};
        matches!(self, Completed | Failed | Expired | Cancelled)
    }
}

/// How a line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineOutcome {
    /// With an answer.
    Succeeded,
    /// With an error.
    Errored,
    /// The batch was cancelled first.
    Cancelled,
    /// The batch's time was over first.
    Expired,
}

/// Lines by how they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// All lines.
    pub total: u64,
    /// Those with an answer.
    pub succeeded: u64,
    /// Those with an error.
    pub errored: u64,
    /// Those that were cancelled.
    pub cancelled: u64,
    /// Those that expired.
    pub expired: u64,
}

/// An error of the input file, as OpenAI reports it in `errors.data`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileError {
    /// `invalid_json_line`, `duplicate_custom_id`, `url_mismatch`, `model_mismatch`, …
    pub code: String,
    /// A sentence.
    pub message: String,
    /// The line, from 1.
    pub line: Option<u64>,
    /// The field at fault.
    pub param: Option<String>,
}

/// A batch, without its lines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// `batch_…`; Anthropic's `msgbatch_…`.
    pub id: String,
    /// The name of the API key that made it; empty without keys.
    pub key: String,
    /// Which API made it.
    pub kind: BatchKind,
    /// The path of the endpoint that every line asks.
    pub endpoint: String,
    /// The model of the lines.
    pub model: Option<String>,
    /// The file with the lines. Of Anthropic's batches it is one that the server keeps and nobody else sees.
    pub input_file: String,
    /// Such as `24h`.
    pub completion_window: String,
    /// Where it stands.
    pub status: BatchStatus,
    /// The file with the answers.
    pub output_file: Option<String>,
    /// The file with the errors.
    pub error_file: Option<String>,
    /// Seconds for which the output files are kept.
    pub output_seconds: Option<i64>,
    /// Errors of the input file.
    pub errors: Vec<FileError>,
    /// Lines by how they ended.
    pub counts: Counts,
    /// Tokens of all lines.
    pub usage: Usage,
    /// What the lines cost, in millionths of the server's currency.
    pub cost_micros: Option<i64>,
    /// Lines that have become jobs so far, while it is validated.
    pub lines_read: u64,
    /// Up to 16 pairs of the client's.
    pub metadata: BTreeMap<String, String>,
    /// When it was accepted.
    pub created_at: Millis,
    /// When its lines were all accepted.
    pub in_progress_at: Option<Millis>,
    /// When its time is over.
    pub expires_at: Millis,
    /// When every line had ended.
    pub finalizing_at: Option<Millis>,
    /// When it was complete.
    pub completed_at: Option<Millis>,
    /// When its input was found at fault.
    pub failed_at: Option<Millis>,
    /// When it had expired.
    pub expired_at: Option<Millis>,
    /// When somebody asked to cancel it.
    pub cancelling_at: Option<Millis>,
    /// When it was cancelled.
    pub cancelled_at: Option<Millis>,
    /// When it was archived (Anthropic): its results are gone.
    pub archived_at: Option<Millis>,
    /// Who is told when it ends.
    pub webhook: Option<String>,
}

impl Batch {
    /// A batch that was just accepted and is to be validated.
    pub fn new(id: String, kind: BatchKind, endpoint: String, now: Millis, expires_at: Millis) -> Batch {
        Batch {
            id,
            key: String::new(),
            kind,
            endpoint,
            model: None,
            input_file: String::new(),
            completion_window: "24h".to_owned(),
            status: BatchStatus::Validating,
            output_file: None,
            error_file: None,
            output_seconds: None,
            errors: Vec::new(),
            counts: Counts::default(),
            usage: Usage::default(),
            cost_micros: None,
            lines_read: 0,
            metadata: BTreeMap::new(),
            created_at: now,
            in_progress_at: None,
            expires_at,
            finalizing_at: None,
            completed_at: None,
            failed_at: None,
            expired_at: None,
            cancelling_at: None,
            cancelled_at: None,
            archived_at: None,
            webhook: None,
        }
    }
}
