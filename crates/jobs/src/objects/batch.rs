//! OpenAI's batch object.

use super::usage::{UsageObject, usage_object};
use crate::batch::{Batch, BatchStatus, FileError};
use crate::time::seconds;
use serde::Serialize;
use std::collections::BTreeMap;

/// A batch as OpenAI's API shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BatchObject<'a> {
    /// The batch's id.
    pub id: &'a str,
    object: &'static str,
    endpoint: &'a str,
    model: Option<&'a str>,
    errors: Option<Errors<'a>>,
    input_file_id: &'a str,
    completion_window: &'a str,
    status: BatchStatus,
    output_file_id: Option<&'a str>,
    error_file_id: Option<&'a str>,
    created_at: i64,
    in_progress_at: Option<i64>,
    expires_at: i64,
    finalizing_at: Option<i64>,
    completed_at: Option<i64>,
    failed_at: Option<i64>,
    expired_at: Option<i64>,
    cancelling_at: Option<i64>,
    cancelled_at: Option<i64>,
    request_counts: RequestCounts,
    usage: UsageObject,
    metadata: Option<&'a BTreeMap<String, String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Errors<'a> {
    object: &'static str,
    data: &'a [FileError],
}

/// Lines by the file in which they are found: `failed` are all that have no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct RequestCounts {
    total: u64,
    completed: u64,
    failed: u64,
}

/// The object of a batch. Its files are named once they can be read, that is when it has ended.
pub fn batch_object(batch: &Batch) -> BatchObject<'_> {
    let ended = batch.status.is_terminal();
    BatchObject {
        id: &batch.id,
        object: "batch",
        endpoint: &batch.endpoint,
        model: batch.model.as_deref(),
        errors: (!batch.errors.is_empty()).then_some(Errors { object: "list", data: &batch.errors }),
        input_file_id: &batch.input_file,
        completion_window: &batch.completion_window,
        status: batch.status,
        output_file_id: batch.output_file.as_deref().filter(|_| ended),
        error_file_id: batch.error_file.as_deref().filter(|_| ended),
        created_at: seconds(batch.created_at),
        in_progress_at: batch.in_progress_at.map(seconds),
        expires_at: seconds(batch.expires_at),
        finalizing_at: batch.finalizing_at.map(seconds),
        completed_at: batch.completed_at.map(seconds),
        failed_at: batch.failed_at.map(seconds),
        // While its last lines are expired, the batch has not yet ended so.
        expired_at: batch.expired_at.filter(|_| ended).map(seconds),
        cancelling_at: batch.cancelling_at.map(seconds),
        cancelled_at: batch.cancelled_at.map(seconds),
        request_counts: RequestCounts {
            total: batch.counts.total,
            completed: batch.counts.succeeded,
            failed: batch.counts.ended().saturating_sub(batch.counts.succeeded),
        },
        usage: usage_object(batch.usage),
        metadata: (!batch.metadata.is_empty()).then_some(&batch.metadata),
    }
}
