//! Anthropic's message batch object.

use super::rfc3339::rfc3339;
use crate::batch::{Batch, BatchStatus, Counts};
use crate::time::Millis;
use serde::Serialize;

/// A batch as Anthropic's API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MessageBatchObject<'a> {
    /// The batch's id.
    pub id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    processing_status: &'static str,
    request_counts: RequestCounts,
    created_at: String,
    expires_at: String,
    ended_at: Option<String>,
    cancel_initiated_at: Option<String>,
    archived_at: Option<String>,
    results_url: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct RequestCounts {
    processing: u64,
    succeeded: u64,
    errored: u64,
    canceled: u64,
    expired: u64,
}

/// The object of a message batch. Its results are at `base_url` with `/v1/messages/batches/ID/results`, once it has ended and
/// until it is archived.
pub fn message_batch_object<'a>(batch: &'a Batch, base_url: &str) -> MessageBatchObject<'a> {
    let ended = batch.status.is_terminal();
    let base_url = base_url.trim_end_matches('/');
    let results = || format!("{base_url}/v1/messages/batches/{}/results", batch.id);
    MessageBatchObject {
        id: &batch.id,
        kind: "message_batch",
        processing_status: processing_status(batch.status),
        request_counts: request_counts(&batch.counts, ended),
        created_at: rfc3339(batch.created_at),
        expires_at: rfc3339(batch.expires_at),
        ended_at: ended_at(batch).map(rfc3339),
        cancel_initiated_at: batch.cancelling_at.map(rfc3339),
        archived_at: batch.archived_at.map(rfc3339),
        results_url: (ended && batch.archived_at.is_none()).then(results),
    }
}

fn processing_status(status: BatchStatus) -> &'static str {
    match status {
        BatchStatus::Cancelling => "canceling",
        status if status.is_terminal() => "ended",
        _ => "in_progress",
    }
}

/// All requests are processing until the batch has ended, as the API's description has it.
fn request_counts(counts: &Counts, ended: bool) -> RequestCounts {
    if !ended {
        return RequestCounts { processing: counts.total, succeeded: 0, errored: 0, canceled: 0, expired: 0 };
    }
    RequestCounts {
        processing: counts.open(),
        succeeded: counts.succeeded,
        errored: counts.errored,
        canceled: counts.cancelled,
        expired: counts.expired,
    }
}

fn ended_at(batch: &Batch) -> Option<Millis> {
    match batch.status {
        BatchStatus::Completed => batch.completed_at,
        BatchStatus::Failed => batch.failed_at,
        BatchStatus::Expired => batch.expired_at,
        BatchStatus::Cancelled => batch.cancelled_at,
        _ => None,
    }
}
