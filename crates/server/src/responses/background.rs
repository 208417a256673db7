//! Responses in the background that outlive the process: jobs of the Responses API.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::request::Parts;
use inference::RequestContext;
use job_server::Jobs;
use job_store::{Accepted, NewJob, StoreError};
use jobs::{Class, Face, Job, JobStatus};
use serde_json::Value;
use wire::{Fault, ResponsesRequest};

use super::pending::{Pending, pending};
use crate::jobs::{ResponseId, peek};
use crate::state::State;

const ENDPOINT: &str = "/v1/responses";

/// What becomes of a request for a response.
pub(crate) enum Taken {
    /// A job: the object that its client gets.
    Job(String),
    /// It is answered while its client waits.
    Now(Box<Request>),
}

/// Makes a job of a request with `background: true`, where jobs are on.
///
/// # Errors
/// What the endpoint answers to such a request at once, or a store that takes no more.
pub(crate) async fn accept(state: &State, request: Request) -> Result<Taken, Fault> {
    let Some(jobs) = state.jobs() else { return Ok(Taken::Now(Box::new(request))) };
    if request.extensions().get::<ResponseId>().is_some() {
        return Ok(Taken::Now(Box::new(request)));
    }
    let (head, body) = peek::whole(state, request).await?;
    let is_wanted = contains(&body, b"\"background\"") && asks_for_background(&body);
    if !is_wanted {
        return Ok(Taken::Now(Box::new(peek::again(head, body))));
    }
    accepted(&jobs, &head, &body).await.map(Taken::Job)
}

/// Whether the bytes are somewhere in the body: cheaper than to parse it.
fn contains(body: &[u8], bytes: &[u8]) -> bool {
    body.windows(bytes.len()).any(|window| window == bytes)
}

fn asks_for_background(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Asked {
        #[serde(default)]
        background: Option<bool>,
    }
    serde_json::from_slice(body).is_ok_and(|asked: Asked| asked.background == Some(true))
}

async fn accepted(jobs: &Arc<Jobs>, head: &Parts, body: &[u8]) -> Result<String, Fault> {
    let key = key_of(head);
    // With all its fields: `background` must fit to the others.
    ResponsesRequest::parse(body)?;
    let checked = jobs.executor.check(ENDPOINT, body, &key)?;
    let now = jobs.now();
    let mut job = Job::new(jobs.id("resp_"), Face::Response, ENDPOINT.to_owned(), now);
    job.key = key;
    job.model = checked.model;
    job.class = Class::Default;
    job.body_sha256 = jobs::hash::sha256_hex(&checked.body);
    job.max_attempts = jobs.options.attempts;
    job.deadline = Some(now + jobs.options.deadline);
    job.retain = jobs.options.retention.responses;
    job.progress.output_limit = checked.output_limit;
    let new = NewJob { job, body: checked.body.clone() };
    match jobs.store.accept(new, None, now).await.map_err(|error| job_server::faces::fault(&error))? {
        Accepted::New(job) | Accepted::Before(job) => shown(&job, &checked.body),
    }
}

fn key_of(head: &Parts) -> String {
    let context = head.extensions.get::<Arc<RequestContext>>();
    context.and_then(|context| context.key()).unwrap_or_default()
}

/// The object of a job that has no result: it waits, runs, or ended otherwise.
fn shown(job: &Job, body: &[u8]) -> Result<String, Fault> {
    let status = match job.status {
        JobStatus::Queued => "queued",
        JobStatus::Running | JobStatus::Cancelling => "in_progress",
        JobStatus::Cancelled => "cancelled",
        JobStatus::Succeeded | JobStatus::Failed | JobStatus::Expired => "failed",
    };
    let error = job.error.as_ref().filter(|_| status == "failed");
    pending(&Pending {
        id: &job.id,
        created: u64::try_from(job.created_at / 1_000).unwrap_or_default(),
        body,
        status,
        error: error.map(|error| (error.code.as_str(), error.message.as_str())),
    })
}

/// The object of a response that is a job; none if there is no such job.
///
/// # Errors
/// A store that cannot be reached, a response that is no longer kept.
pub(crate) async fn object(state: &State, id: &str, key: &str) -> Result<Option<String>, Fault> {
    let Some((jobs, job)) = found(state, id, key).await? else { return Ok(None) };
    if job.status == JobStatus::Succeeded {
        let result = jobs.store.result(id).await.map_err(|error| job_server::faces::fault(&error))?;
        let text = String::from_utf8(result).map_err(|_| Fault::internal("a kept response is not UTF-8"))?;
        return Ok(Some(text));
    }
    let body = jobs.store.body(id).await.map_err(|error| job_server::faces::fault(&error))?;
    shown(&job, &body).map(Some)
}

async fn found(state: &State, id: &str, key: &str) -> Result<Option<(Arc<Jobs>, Job)>, Fault> {
    let Some(jobs) = state.jobs() else { return Ok(None) };
    match jobs.store.job(id, jobs.scope(key)).await {
        Ok(job) if job.face == Face::Response => Ok(Some((jobs, job))),
        Ok(_) | Err(StoreError::NotFound(_)) => Ok(None),
        Err(error) => Err(job_server::faces::fault(&error)),
    }
}

/// Cancels a response that is a job.
///
/// # Errors
/// A store that cannot be reached.
pub(crate) async fn cancel(state: &State, id: &str, key: &str) -> Result<Option<String>, Fault> {
    let Some((jobs, job)) = found(state, id, key).await? else { return Ok(None) };
    if !job.status.is_terminal() {
        let cancelled = jobs.store.cancel(id, jobs.scope(key), jobs.now()).await;
        cancelled.map_err(|error| job_server::faces::fault(&error))?;
        jobs.live.look();
        jobs.tell(id);
    }
    object(state, id, key).await
}

/// Deletes a response that is a job.
///
/// # Errors
/// One that is still computed, a store that cannot be reached.
pub(crate) async fn delete(state: &State, id: &str, key: &str) -> Result<Option<String>, Fault> {
    let Some((jobs, _)) = found(state, id, key).await? else { return Ok(None) };
    let deleted = jobs.store.delete(id, jobs.scope(key), jobs.now()).await;
    deleted.map_err(|error| job_server::faces::fault(&error))?;
    let answer = serde_json::json!({"id": id, "object": "response", "deleted": true});
    Ok(Some(Value::to_string(&answer)))
}
