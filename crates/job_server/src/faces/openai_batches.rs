//! `/v1/batches`: OpenAI's batches of the lines of a file.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use job_store::{BatchFilter, CancelOutcome};
use jobs::objects::{List, batch_object};
use jobs::{Batch, BatchKind, BatchStatus, Millis, Purpose, parse_line};
use wire::Fault;
use wire::error::quote;

use super::ask::{Caller, Fields, Params, body, idempotency, of_body};
use super::fault::{answer, conflict, json, not_found, of_store, of_store_for};
use super::files::routes::visible;
use super::files::upload::EXPIRES_AFTER;
use super::target;
use crate::shared::Jobs;

/// Batches of a page, unless the client says, and at most.
const PAGE: u64 = 20;
const MOST_PAGE: u64 = 100;
/// Bytes in which the first line is looked for.
const FIRST_LINE: usize = 64 << 10;
const HOUR: Millis = 3_600_000;
/// The shortest and the longest window. OpenAI's only one is 24 h.
const WINDOWS: std::ops::RangeInclusive<Millis> = HOUR..=7 * 24 * HOUR;

/// `POST /v1/batches`.
pub(crate) async fn create(State(jobs): State<Arc<Jobs>>, request: Request) -> Response {
    let answered = async {
        let caller = Caller::of(&jobs, request.extensions());
        let headers = request.headers().clone();
        let body = body(&jobs, request).await?;
        let key = idempotency(&jobs, &caller, &headers, "POST /v1/batches", of_body(&body))?;
        let batch = asked(&jobs, &caller, &Fields::read(&body)?).await?;
        let batch = jobs.store.create_batch(batch, key, jobs.now()).await.map_err(of_store)?;
        Ok(json(&batch_object(&batch)))
    };
    answer(answered.await)
}

/// The batch that a body asks for.
async fn asked(jobs: &Jobs, caller: &Caller, fields: &Fields) -> Result<Batch, Fault> {
    let file = fields.required_text("input_file_id")?;
    let endpoint = fields.required_text("endpoint")?;
    let known = jobs.executor.endpoints();
    if !known.contains(&endpoint.as_str()) {
        let message = format!("endpoint is {}; it must be one of {}", quote(&endpoint), known.join(", "));
        return Err(Fault::field("endpoint", message));
    }
    let window = fields.required_text("completion_window")?;
    let length = length(&window)?;
    let metadata = fields.metadata()?;
    let output_seconds = output_seconds(fields)?;
    let webhook = target::of_job(jobs, caller, fields).await?;
    let input = visible(jobs, &file, Some(&caller.key)).await.map_err(|mut fault| {
        fault.param = Some("input_file_id".to_owned());
        fault
    })?;
    if input.purpose != Purpose::Batch {
        let message = format!("input_file_id is {}, whose purpose is not batch", quote(&file));
        return Err(Fault::field("input_file_id", message));
    }
    let model = model(jobs, &file, &endpoint).await;
    let now = jobs.now();
    let batch = Batch::new(jobs.id("batch_"), BatchKind::OpenAi, endpoint, now, now + length);
    Ok(Batch {
        model,
        key: caller.key.clone(),
        input_file: file,
        completion_window: window,
        output_seconds,
        metadata,
        webhook,
        ..batch
    })
}

/// The model of the first line, if that can be told at once; all lines must have the same.
async fn model(jobs: &Jobs, file: &str, endpoint: &str) -> Option<String> {
    let beginning = jobs.store.read_file(file, 0, FIRST_LINE).await.ok()?;
    let line = beginning.split(|byte| *byte == b'\n').next()?;
    parse_line(1, line.trim_ascii_end(), Some(endpoint)).ok()?.model
}

/// The length of a window such as `24h` or `7d`.
fn length(window: &str) -> Result<Millis, Fault> {
    let unit = match window.chars().last() {
        Some('h') => HOUR,
        Some('d') => 24 * HOUR,
        _ => 0,
    };
    let digits = window.get(..window.len().saturating_sub(1)).unwrap_or_default();
    let plain = digits.len() <= 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: Option<Millis> = digits.parse().ok().filter(|_| plain);
    let length = number.map(|number| number * unit).filter(|length| WINDOWS.contains(length));
    length.ok_or_else(|| {
        let message = format!("completion_window is {}; it must be 24h, or from 1h to 7d", quote(window));
        Fault::field("completion_window", message)
    })
}

/// For how long the output files are kept.
fn output_seconds(fields: &Fields) -> Result<Option<i64>, Fault> {
    let Some(after) = fields.object("output_expires_after")? else { return Ok(None) };
    let anchor = after.required_text("anchor")?;
    if anchor != "created_at" {
        let path = after.path("anchor");
        return Err(Fault::field(
            path.clone(),
            format!("{path} is {}; it must be created_at", quote(&anchor)),
        ));
    }
    let seconds = after.number("seconds", EXPIRES_AFTER)?;
    seconds.map(Some).ok_or_else(|| Fault::missing(after.path("seconds")))
}

/// A batch of this API.
async fn found(jobs: &Jobs, id: &str, caller: &Caller) -> Result<Batch, Fault> {
    let batch = jobs.store.batch(id, caller.scope()).await.map_err(|error| of_store_for(error, id))?;
    if batch.kind == BatchKind::OpenAi { Ok(batch) } else { Err(not_found("batch", id)) }
}

/// `GET /v1/batches/{id}`.
pub(crate) async fn retrieve(State(jobs): State<Arc<Jobs>>, Path(id): Path<String>, head: Parts) -> Response {
    let caller = Caller::of(&jobs, &head.extensions);
    answer(found(&jobs, &id, &caller).await.map(|batch| json(&batch_object(&batch))))
}

/// `GET /v1/batches`.
pub(crate) async fn list(State(jobs): State<Arc<Jobs>>, head: Parts) -> Response {
    let answered = async {
        let params = Params::of(&head.uri)?;
        let limit = params.number("limit", 1..=MOST_PAGE)?.unwrap_or(PAGE);
        let filter = BatchFilter {
            key: Caller::of(&jobs, &head.extensions).filter(),
            kind: Some(BatchKind::OpenAi),
            after: params.text("after"),
            before: None,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
        };
        let page = jobs.store.batches(filter).await.map_err(of_store)?;
        let objects = page.rows.iter().map(batch_object).collect();
        Ok(json(&List::new(objects, page.more, |batch| batch.id)))
    };
    answer(answered.await)
}

/// `POST /v1/batches/{id}/cancel`.
pub(crate) async fn cancel(State(jobs): State<Arc<Jobs>>, Path(id): Path<String>, head: Parts) -> Response {
    let answered = async {
        let caller = Caller::of(&jobs, &head.extensions);
        found(&jobs, &id, &caller).await?;
        let outcome = jobs.store.cancel_batch(&id, caller.scope(), jobs.now()).await;
        let batch = match outcome.map_err(|error| of_store_for(error, &id))? {
            CancelOutcome::Cancelling(batch) if !batch.status.is_terminal() => batch,
            CancelOutcome::Cancelling(batch) | CancelOutcome::Ended(batch) => {
                let status = word(batch.status);
                return Err(conflict(format!("the batch {id} is {status} and cannot be cancelled")));
            }
        };
        jobs.live.look();
        jobs.tell(&id);
        Ok(json(&batch_object(&batch)))
    };
    answer(answered.await)
}

/// A status as the API writes it.
fn word(status: BatchStatus) -> &'static str {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read() {
        assert_eq!(length("24h").unwrap(), 24 * HOUR);
        assert_eq!(length("1h").unwrap(), HOUR);
        assert_eq!(length("7d").unwrap(), 168 * HOUR);
        for bad in ["", "h", "24", "0h", "8d", "169h", "3 weeks", "1m", "-1h", "99999999999h", "+5h", "é"] {
            assert_eq!(length(bad).unwrap_err().param.as_deref(), Some("completion_window"), "{bad}");
        }
    }
}
