//! A request becomes a job.

use std::collections::BTreeMap;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use job_store::{Accepted, IdempotencyKey, NewJob};
use jobs::{Class, Face, Job, Millis, sha256_hex};
use wire::Fault;

use super::view;
use crate::executor::Checked;
use crate::faces::ask::Caller;
use crate::faces::fault::{conflict, json, of_store};
use crate::shared::Jobs;

/// What is wanted of a job beside its request; what is none is as the server has it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    pub(crate) class: Option<Class>,
    pub(crate) run_at: Option<Millis>,
    /// From its acceptance.
    pub(crate) deadline: Option<Millis>,
    /// From its end.
    pub(crate) retain: Option<Millis>,
    pub(crate) attempts: Option<u32>,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) webhook: Option<String>,
    /// Whether a deadline that cannot be met is refused.
    pub(crate) strict: bool,
}

/// A job that was accepted, now or before.
pub(crate) struct Submitted {
    pub(crate) job: Job,
    /// Whether the same request had been accepted before.
    pub(crate) replayed: bool,
    /// What the client is to know.
    pub(crate) warning: Option<String>,
}

/// Checks a request, off the async threads.
///
/// # Errors
/// What its endpoint would answer at once.
pub(crate) async fn check(jobs: &Jobs, endpoint: &str, body: Vec<u8>, key: &str) -> Result<Checked, Fault> {
    let (executor, endpoint, key) = (jobs.executor.clone(), endpoint.to_owned(), key.to_owned());
    let checked = tokio::task::spawn_blocking(move || executor.check(&endpoint, &body, &key));
    checked.await.unwrap_or_else(|error| Err(Fault::internal(format!("a request was not checked: {error}"))))
}

/// Accepts a checked request as a job: durable when this is done.
///
/// # Errors
/// A store that is full or out of reach, an idempotency key of another request, a deadline that cannot be met.
pub(crate) async fn submit(
    jobs: &Jobs,
    caller: &Caller,
    endpoint: &str,
    checked: Checked,
    wanted: Wanted,
    key: Option<IdempotencyKey>,
) -> Result<Submitted, Fault> {
    let now = jobs.now();
    let warning = late(jobs, &wanted, &checked, now).await;
    if let Some(warning) = warning.as_ref().filter(|_| wanted.strict) {
        return Err(conflict(warning.clone()));
    }
    let mut job = Job::new(jobs.id("job_"), Face::Job, endpoint.to_owned(), now);
    job.key.clone_from(&caller.key);
    job.model = checked.model;
    job.body_sha256 = sha256_hex(&checked.body);
    job.class = wanted.class.unwrap_or(job.class);
    job.run_at = wanted.run_at.unwrap_or(now).max(now);
    job.deadline = Some(now.saturating_add(wanted.deadline.unwrap_or(jobs.options.deadline)));
    job.retain = wanted.retain.unwrap_or(jobs.options.retention.jobs);
    job.max_attempts = wanted.attempts.unwrap_or(jobs.options.attempts);
    job.progress.output_limit = checked.output_limit;
    job.metadata = wanted.metadata;
    job.webhook = wanted.webhook;
    let accepted = jobs.store.accept(NewJob { job, body: checked.body }, key, now).await.map_err(of_store)?;
    Ok(match accepted {
        Accepted::New(job) => Submitted { job, replayed: false, warning },
        Accepted::Before(job) => Submitted { job, replayed: true, warning: None },
    })
}

/// Says that a deadline which the client has set will likely pass.
async fn late(jobs: &Jobs, wanted: &Wanted, checked: &Checked, now: Millis) -> Option<String> {
    let deadline = wanted.deadline?;
    let ahead = wanted.run_at.map_or(0, |at| (at - now).max(0));
    let expected = jobs.executor.expected_seconds(jobs.queued().await, checked.output_limit)?;
    let needed = expected + ahead as f64 / 1e3;
    let given = deadline as f64 / 1e3;
    (needed > given)
        .then(|| format!("the job is expected to end in {needed:.0} s; its deadline is in {given:.0} s"))
}

/// 202 with the job, and where it is to be found.
pub(crate) async fn accepted(jobs: &Jobs, submitted: &Submitted) -> Response {
    let Submitted { job, replayed, warning } = submitted;
    let mut object = view::brief(jobs, job);
    if let Some(warning) = warning {
        object["warning"] = warning.as_str().into();
    }
    let mut response = json(&object);
    *response.status_mut() = StatusCode::ACCEPTED;
    view::add_headers(jobs, job, response.headers_mut()).await;
    add_place(jobs, job, *replayed, &mut response);
    response
}

/// Adds where the job is to be found, and whether it was accepted before.
pub(crate) fn add_place(jobs: &Jobs, job: &Job, replayed: bool, response: &mut Response) {
    let place = format!("{}/v1/jobs/{}", jobs.options.base_url.trim_end_matches('/'), job.id);
    if let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    if replayed {
        response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
    }
    // A job that has ended needs no second look.
    if !job.status.is_terminal() && !response.headers().contains_key(header::RETRY_AFTER) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
}
