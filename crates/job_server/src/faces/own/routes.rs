//! `/v1/jobs`: accepting, looking, cancelling, retrying and deleting.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use jobs::objects::Deleted;
use jobs::{Class, Millis};
use wire::Fault;

use super::submit::{Wanted, accepted, check, submit};
use super::{view, wait};
use crate::faces::ask::{Caller, Fields, Params, body, idempotency, of_body, optional_body};
use crate::faces::fault::{answer, json, not_found, of_store_for};
use crate::faces::target;
use crate::shared::Jobs;

/// The most attempts that a client may ask for.
const MOST_ATTEMPTS: i64 = 20;
/// The last second of the year 9999.
const LAST_SECOND: i64 = 253_402_300_799;
const SECOND: Millis = 1_000;

/// `POST /v1/jobs`.
pub(crate) async fn create(State(jobs): State<Arc<Jobs>>, request: Request) -> Response {
    let answered = async {
        let caller = Caller::of(&jobs, request.extensions());
        let headers = request.headers().clone();
        let body = body(&jobs, request).await?;
        let key = idempotency(&jobs, &caller, &headers, "POST /v1/jobs", of_body(&body))?;
        let fields = Fields::read(&body)?;
        let endpoint = endpoint(&jobs, &fields)?;
        let wanted = wanted(&jobs, &caller, &fields).await?;
        let inner = fields.raw("body").filter(|body| body.starts_with('{'));
        let inner = inner
            .ok_or_else(|| Fault::field("body", "body must be an object: the request of the endpoint"))?;
        let checked = check(&jobs, &endpoint, inner.as_bytes().to_vec(), &caller.key).await;
        let checked = checked.map_err(|fault| inside("body", fault))?;
        let submitted = submit(&jobs, &caller, &endpoint, checked, wanted, key).await?;
        Ok(accepted(&jobs, &submitted).await)
    };
    answer(answered.await)
}

/// A fault of a request inside of another.
fn inside(place: &str, mut fault: Fault) -> Fault {
    fault.param = fault.param.map(|param| format!("{place}.{param}"));
    fault
}

/// The endpoint that a job names: one of those that take jobs.
fn endpoint(jobs: &Jobs, fields: &Fields) -> Result<String, Fault> {
    let endpoint = fields.required_text("endpoint")?;
    let known = jobs.executor.endpoints();
    if known.contains(&endpoint.as_str()) {
        return Ok(endpoint);
    }
    let (named, known) = (wire::error::quote(&endpoint), known.join(", "));
    Err(Fault::field("endpoint", format!("endpoint is {named}, which takes no jobs; these do: {known}")))
}

/// What is wanted of a job beside its request.
async fn wanted(jobs: &Jobs, caller: &Caller, fields: &Fields) -> Result<Wanted, Fault> {
    let options = &jobs.options;
    let attempts = fields.number("max_attempts", 1..=MOST_ATTEMPTS)?;
    Ok(Wanted {
        class: fields.get::<Class>("priority", "interactive, default or batch")?,
        run_at: fields.number("run_at", 0..=LAST_SECOND)?.map(|at| at * SECOND),
        deadline: seconds(fields, "deadline_seconds", options.max_deadline)?,
        retain: seconds(fields, "retain_seconds", options.max_retention)?,
        attempts: attempts.and_then(|attempts| u32::try_from(attempts).ok()),
        metadata: fields.metadata()?,
        webhook: target::of_job(jobs, caller, fields).await?,
        strict: fields.flag("strict")?,
    })
}

/// A time in seconds, as milliseconds.
fn seconds(fields: &Fields, name: &str, most: Millis) -> Result<Option<Millis>, Fault> {
    Ok(fields.number(name, 1..=most / SECOND)?.map(|seconds| seconds * SECOND))
}

/// `GET /v1/jobs/{id}`.
pub(crate) async fn retrieve(State(jobs): State<Arc<Jobs>>, Path(id): Path<String>, head: Parts) -> Response {
    let answered = async {
        let most = Params::of(&head.uri)?.number("wait", 0..=wait::MOST_WAIT_S)?.unwrap_or(0);
        let caller = Caller::of(&jobs, &head.extensions);
        let job = wait::end(&jobs, &id, caller.scope(), Duration::from_secs(most)).await;
        let job = job.map_err(|error| of_store_for(error, &id))?;
        let tag = view::tag(&job);
        if view::is_known(&head.headers, &tag) {
            return Ok(view::unchanged(&tag));
        }
        view::whole(&jobs, &job).await
    };
    answer(answered.await)
}

/// `GET /v1/jobs/{id}/result`.
pub(crate) async fn result(State(jobs): State<Arc<Jobs>>, Path(id): Path<String>, head: Parts) -> Response {
    let answered = async {
        let caller = Caller::of(&jobs, &head.extensions);
        let job = jobs.store.job(&id, caller.scope()).await.map_err(|error| of_store_for(error, &id))?;
        if job.result_sha256.is_none() {
            return Err(not_found("result of job", &id));
        }
        let bytes = jobs.store.result(&id).await.map_err(|error| of_store_for(error, &id))?;
        let media = if serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok() {
            "application/json"
        } else {
            "application/octet-stream"
        };
        let mut response = Response::new(Body::from(bytes));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        Ok(response)
    };
    answer(answered.await)
}

/// `POST /v1/jobs/{id}/cancel`.
pub(crate) async fn cancel(State(jobs): State<Arc<Jobs>>, Path(id): Path<String>, head: Parts) -> Response {
    let answered = async {
        let caller = Caller::of(&jobs, &head.extensions);
        let job = jobs.store.cancel(&id, caller.scope(), jobs.now()).await;
        let job = job.map_err(|error| of_store_for(error, &id))?;
        jobs.live.look();
        jobs.tell(&job.id);
        view::whole(&jobs, &job).await
    };
    answer(answered.await)
}

/// `POST /v1/jobs/{id}/retry`.
pub(crate) async fn retry(
    State(jobs): State<Arc<Jobs>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let answered = async {
        let caller = Caller::of(&jobs, request.extensions());
        let fields = Fields::read(&optional_body(&jobs, request).await?)?;
        let deadline = seconds(&fields, "deadline_seconds", jobs.options.max_deadline)?;
        let now = jobs.now();
        let deadline = now.saturating_add(deadline.unwrap_or(jobs.options.deadline));
        let job = jobs.store.retry(&id, caller.scope(), Some(deadline), now).await;
        let job = job.map_err(|error| of_store_for(error, &id))?;
        jobs.tell(&job.id);
        view::whole(&jobs, &job).await
    };
    answer(answered.await)
}

/// `DELETE /v1/jobs/{id}`.
pub(crate) async fn delete(State(jobs): State<Arc<Jobs>>, Path(id): Path<String>, head: Parts) -> Response {
    let answered = async {
        let caller = Caller::of(&jobs, &head.extensions);
        let deleted = jobs.store.delete(&id, caller.scope(), jobs.now()).await;
        deleted.map_err(|error| of_store_for(error, &id))?;
        jobs.tell(&id);
        Ok(json(&Deleted::new(&id, "job")))
    };
    answer(answered.await)
}
