//! `/v1/messages/batches`: Anthropic's message batches.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use job_store::{BatchFilter, CancelOutcome};
use jobs::objects::{DeletedMessageBatch, MessageList, message_batch_object};
use jobs::requests::{RequestReader, RequestRules, RequestsError};
use jobs::{Batch, BatchKind, Millis, Purpose};
use wire::Fault;

use super::ask::{Caller, Params, idempotency};
use super::fault::{answer_anthropic, conflict, fault, json, not_found, of_store, of_store_for};
use super::files::content;
use super::files::draft::{About, Draft};
use super::files::incoming::Incoming;
use crate::batches;
use crate::shared::Jobs;

/// The endpoint that answers the requests.
const ENDPOINT: &str = "/v1/messages";
/// Batches of a page, unless the client says, and at most.
const PAGE: u64 = 20;
const MOST_PAGE: u64 = 1_000;
/// How long a batch may take.
const WINDOW: Millis = 24 * 3_600_000;

/// `POST /v1/messages/batches`.
pub(crate) async fn create(State(jobs): State<Arc<Jobs>>, request: Request) -> Response {
    answer_anthropic(accept(&jobs, request).await)
}

async fn accept(jobs: &Arc<Jobs>, request: Request) -> Result<Response, Fault> {
    check_type(request.headers())?;
    if !jobs.executor.endpoints().contains(&ENDPOINT) {
        return Err(fault(404, "not_found", "messages are not served here"));
    }
    let caller = Caller::of(jobs, request.extensions());
    let headers = request.headers().clone();
    // Before the body is read, as far as the header alone is at fault.
    idempotency(jobs, &caller, &headers, "", String::new)?;
    let mut incoming = Incoming::of(jobs, request, jobs.options.max_message_bytes)?;
    let mut draft = Draft::new(jobs, jobs.id("file-"));
    if let Err(fault) = read(jobs, &mut incoming, &mut draft).await {
        incoming.pass().await;
        return Err(fault);
    }
    let about = About {
        key: caller.key.clone(),
        filename: "requests.json".to_owned(),
        purpose: Purpose::Batch,
        expires_at: Some(jobs.now() + jobs.options.retention.messages),
        hidden: true,
    };
    let input = draft.seal(about).await.map_err(of_store)?;
    let key = idempotency(jobs, &caller, &headers, "POST /v1/messages/batches", || input.sha256.clone())?;
    let now = jobs.now();
    let id = jobs.id("msgbatch_");
    let batch = Batch {
        key: caller.key,
        input_file: input.id.clone(),
        ..Batch::new(id.clone(), BatchKind::Anthropic, ENDPOINT.to_owned(), now, now + WINDOW)
    };
    let created = jobs.store.create_batch(batch, key, now).await;
    if created.as_ref().map_or(true, |batch| batch.id != id) {
        // The file of a batch that was not made, or made before. Otherwise it goes when its time is over.
        let _ = jobs.store.delete_file(&input.id, None, now).await;
    }
    // Its requests are counted from the first answer on.
    let batch = batches::begun(jobs, created.map_err(of_store)?).await.map_err(of_store)?;
    Ok(json(&message_batch_object(&batch, &jobs.options.base_url)))
}

/// A browser may send other types to other sites without asking.
fn check_type(headers: &HeaderMap) -> Result<(), Fault> {
    let value = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?"));
    let essence = value.map(|value| value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    if essence.as_deref() == Some("application/json") { Ok(()) } else { Err(Fault::media_type(value)) }
}

/// Checks the body as it comes, and writes it.
async fn read(jobs: &Jobs, incoming: &mut Incoming<'_>, draft: &mut Draft) -> Result<(), Fault> {
    let options = &jobs.options;
    let rules = RequestRules {
        max_requests: options.max_message_requests,
        max_request_bytes: options.max_line_bytes,
    };
    let mut reader = RequestReader::new(rules);
    while let Some(bytes) = incoming.next().await? {
        if draft.len() + bytes.len() as u64 > options.max_message_bytes {
            return Err(Fault::too_large(usize::try_from(options.max_message_bytes).unwrap_or(usize::MAX)));
        }
        reader.feed(&bytes, |_| {}).map_err(refused)?;
        draft.write(&bytes).await.map_err(of_store)?;
    }
    reader.finish().map(drop).map_err(refused)
}

fn refused(error: RequestsError) -> Fault {
    let mut fault = Fault::body(error.to_string());
    if error.too_large {
        fault.status = 413;
    }
    fault
}

/// A batch of this API.
async fn found(jobs: &Jobs, id: &str, caller: &Caller) -> Result<Batch, Fault> {
    let batch = jobs.store.batch(id, caller.scope()).await.map_err(|error| of_store_for(error, id))?;
    if batch.kind == BatchKind::Anthropic { Ok(batch) } else { Err(not_found("message batch", id)) }
}

/// `GET /v1/messages/batches/{id}`.
pub(crate) async fn retrieve(State(jobs): State<Arc<Jobs>>, Path(id): Path<String>, head: Parts) -> Response {
    let caller = Caller::of(&jobs, &head.extensions);
    let batch = found(&jobs, &id, &caller).await;
    answer_anthropic(batch.map(|batch| json(&message_batch_object(&batch, &jobs.options.base_url))))
}

/// `GET /v1/messages/batches`.
pub(crate) async fn list(State(jobs): State<Arc<Jobs>>, head: Parts) -> Response {
    let answered = async {
        let params = Params::of(&head.uri)?;
        let limit = params.number("limit", 1..=MOST_PAGE)?.unwrap_or(PAGE);
        let (after, before) = (params.text("after_id"), params.text("before_id"));
        if after.is_some() && before.is_some() {
            return Err(Fault::field("before_id", "before_id and after_id cannot be given together"));
        }
        let filter = BatchFilter {
            key: Caller::of(&jobs, &head.extensions).filter(),
            kind: Some(BatchKind::Anthropic),
            after,
            before,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
        };
        let page = jobs.store.batches(filter).await.map_err(of_store)?;
        let base = &jobs.options.base_url;
        let objects = page.rows.iter().map(|batch| message_batch_object(batch, base)).collect();
        Ok(json(&MessageList::new(objects, page.more, |batch| batch.id)))
    };
    answer_anthropic(answered.await)
}

/// `POST /v1/messages/batches/{id}/cancel`.
pub(crate) async fn cancel(State(jobs): State<Arc<Jobs>>, Path(id): Path<String>, head: Parts) -> Response {
    let answered = async {
        let caller = Caller::of(&jobs, &head.extensions);
        found(&jobs, &id, &caller).await?;
        let outcome = jobs.store.cancel_batch(&id, caller.scope(), jobs.now()).await;
        let (CancelOutcome::Cancelling(batch) | CancelOutcome::Ended(batch)) =
            outcome.map_err(|error| of_store_for(error, &id))?;
        jobs.live.look();
        jobs.tell(&id);
        Ok(json(&message_batch_object(&batch, &jobs.options.base_url)))
    };
    answer_anthropic(answered.await)
}

/// `DELETE /v1/messages/batches/{id}`.
pub(crate) async fn delete(State(jobs): State<Arc<Jobs>>, Path(id): Path<String>, head: Parts) -> Response {
    let answered = async {
        let caller = Caller::of(&jobs, &head.extensions);
        let batch = found(&jobs, &id, &caller).await?;
        let deleted = jobs.store.delete_batch(&id, caller.scope(), jobs.now()).await;
        deleted.map_err(|error| of_store_for(error, &id))?;
        for file in batch.output_file.iter().chain([&batch.input_file]) {
            // What is left of it goes when its time is over.
            let _ = jobs.store.delete_file(file, None, jobs.now()).await;
        }
        jobs.tell(&id);
        Ok(json(&DeletedMessageBatch::new(&id)))
    };
    answer_anthropic(answered.await)
}

/// `GET /v1/messages/batches/{id}/results`.
pub(crate) async fn results(State(jobs): State<Arc<Jobs>>, Path(id): Path<String>, head: Parts) -> Response {
    let answered = async {
        let caller = Caller::of(&jobs, &head.extensions);
        let batch = found(&jobs, &id, &caller).await?;
        if !batch.status.is_terminal() {
            return Err(conflict(format!("the message batch {id} has not ended: it has no results yet")));
        }
        if batch.archived_at.is_some() {
            return Err(fault(
                410,
                "gone",
                format!("the results of the message batch {id} are no longer kept"),
            ));
        }
        let (body, length) = match &batch.output_file {
            Some(file) => {
                let file = jobs.store.file(file, None).await.map_err(|error| of_store_for(error, &id))?;
                (content::bytes(&jobs, &file.id, 0, file.bytes), file.bytes)
            }
            None => (Body::empty(), 0),
        };
        let mut response = Response::new(body);
        let media = HeaderValue::from_static("application/x-jsonl");
        response.headers_mut().insert(header::CONTENT_TYPE, media);
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        Ok(response)
    };
    answer_anthropic(answered.await)
}
