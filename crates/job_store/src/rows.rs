//! Rows of jobs, batches and files, and back.

use crate::error::StoreError;
use crate::sql::{Row, Value, values};
use jobs::batch::{Batch, BatchKind, BatchStatus};
use jobs::{Class, File, Job, JobStatus, Millis, Purpose};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

/// Columns of which [`read_job`] makes a job.
pub(crate) const JOB: &str = "json, prefix_rank";

/// Part of a job's bytes: its request.
pub(crate) const BODY: i64 = 0;
/// Part of a job's bytes: its result or error.
pub(crate) const RESULT: i64 = 1;
/// Part of a job's bytes: its last checkpoint.
pub(crate) const CHECKPOINT: i64 = 2;

pub(crate) fn to_json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Unavailable(format!("a row: {error}")))
}

pub(crate) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Unavailable(format!("a row: {error}")))
}

/// SHA-256 in hex.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn read_job(row: &Row) -> Result<Job, StoreError> {
    let mut job: Job = from_json(row.text(0)?)?;
    job.prefix_rank = row.int(1)?;
    Ok(job)
}

pub(crate) fn class_number(class: Class) -> i64 {
    class as i64
}

pub(crate) fn class_of(number: i64) -> Class {
    match number {
        0 => Class::Interactive,
        1 => Class::Default,
        _ => Class::Batch,
    }
}

pub(crate) fn status_word(status: JobStatus) -> &'static str {
    match status {
        JobStatus::Queued => "queued",
        JobStatus::Running => "running",
        JobStatus::Cancelling => "cancelling",
        JobStatus::Succeeded => "succeeded",
        JobStatus::Failed => "failed",
        JobStatus::Cancelled => "cancelled",
        JobStatus::Expired => "expired",
    }
}

pub(crate) fn status_of(word: &str) -> Option<JobStatus> {
    const ALL: [JobStatus; 7] = [
        JobStatus::Queued,
        JobStatus::Running,
        JobStatus::Cancelling,
        JobStatus::Succeeded,
        JobStatus::Failed,
        JobStatus::Cancelled,
        JobStatus::Expired,
    ];
    ALL.into_iter().find(|status| status_word(*status) == word)
}

pub(crate) fn batch_status_word(status: BatchStatus) -> &'static str {
    match status {
        BatchStatus::Validating => "validating",
        BatchStatus::InProgress => "in_progress",
        BatchStatus::Finalizing => "finalizing",
        BatchStatus::Completed => "completed",
        BatchStatus::Failed => "failed",
        BatchStatus::Expired => "expired",
        BatchStatus::Cancelling => "cancelling",
        BatchStatus::Cancelled => "cancelled",
    }
}

pub(crate) fn batch_status_of(word: &str) -> Option<BatchStatus> {
    const ALL: [BatchStatus; 8] = [
        BatchStatus::Validating,
        BatchStatus::InProgress,
        BatchStatus::Finalizing,
        BatchStatus::Completed,
        BatchStatus::Failed,
        BatchStatus::Expired,
        BatchStatus::Cancelling,
        BatchStatus::Cancelled,
    ];
    ALL.into_iter().find(|status| batch_status_word(*status) == word)
}

pub(crate) fn kind_word(kind: BatchKind) -> &'static str {
    match kind {
        BatchKind::OpenAi => "openai",
        BatchKind::Anthropic => "anthropic",
    }
}

pub(crate) fn purpose_word(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Batch => "batch",
        Purpose::BatchOutput => "batch_output",
        Purpose::UserData => "user_data",
    }
}

/// Until when an ended job is kept; lines are kept with their batch.
fn retain_until(job: &Job) -> Option<Millis> {
    if job.batch.is_some() {
        return None;
    }
    job.finished_at.map(|end| end.saturating_add(job.retain))
}

/// Writes a new row of a job.
pub(crate) const INSERT_JOB: &str =
    "INSERT INTO job (id, status, alone, run_at, prefix_rank, deadline, lease_until,
     retain_until, dead, json, key, class, ready, batch, line, model, created_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";

/// Writes what may change in a row of a job.
pub(crate) const UPDATE_JOB: &str = "UPDATE job SET status = $2, alone = $3, run_at = $4, prefix_rank = $5,
     deadline = $6, lease_until = $7, retain_until = $8, dead = $9, json = $10 WHERE id = $1";

/// The values of [`UPDATE_JOB`].
pub(crate) fn changing_values(job: &Job) -> Result<Vec<Value>, StoreError> {
    let deadline = job.deadline.filter(|_| !job.status.is_terminal());
    Ok(values![
        &job.id,
        status_word(job.status),
        job.runs_alone(),
        job.run_at,
        job.prefix_rank,
        deadline,
        job.lease_until,
        retain_until(job),
        job.dead,
        to_json(job)?,
    ])
}

/// The values of [`INSERT_JOB`].
pub(crate) fn all_values(job: &Job, ready: bool) -> Result<Vec<Value>, StoreError> {
    let mut row = changing_values(job)?;
    row.extend(values![
        &job.key,
        class_number(job.class),
        ready,
        job.batch.as_ref(),
        job.line,
        &job.model,
        job.created_at,
    ]);
    Ok(row)
}

/// Writes a row of a batch, new or not; `todo`, `clear_at` and `delete_at` only with [`batch_values`] of a new one.
pub(crate) const PUT_BATCH: &str = "INSERT INTO job_batch (id, key, kind, status, settled, created_at, expires_at,
     input_file, json) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
     ON CONFLICT (id) DO UPDATE SET status = excluded.status, settled = excluded.settled, json = excluded.json";

/// The values of [`PUT_BATCH`].
pub(crate) fn batch_values(batch: &Batch) -> Result<Vec<Value>, StoreError> {
    Ok(values![
        &batch.id,
        &batch.key,
        kind_word(batch.kind),
        batch_status_word(batch.status),
        batch.is_settled(),
        batch.created_at,
        batch.expires_at,
        &batch.input_file,
        to_json(batch)?,
    ])
}

/// Writes a row of a file, new or not.
pub(crate) const PUT_FILE: &str =
    "INSERT INTO job_file (id, key, purpose, hidden, created_at, expires_at, size, place,
     json) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
     ON CONFLICT (id) DO UPDATE SET key = excluded.key, purpose = excluded.purpose, hidden = excluded.hidden,
     created_at = excluded.created_at, expires_at = excluded.expires_at, size = excluded.size,
     place = excluded.place, json = excluded.json";

/// The values of [`PUT_FILE`].
pub(crate) fn file_values(file: &File, place: Option<&str>) -> Result<Vec<Value>, StoreError> {
    Ok(values![
        &file.id,
        &file.key,
        purpose_word(file.purpose),
        file.hidden,
        file.created_at,
        file.expires_at,
        file.bytes,
        place,
        to_json(file)?,
    ])
}
