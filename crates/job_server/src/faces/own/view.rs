//! Jobs as clients see them.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use jobs::objects::{JobContext, job_object};
use jobs::{Job, JobStatus};
use serde::Deserialize;
use serde_json::Value;
use wire::Fault;

use crate::faces::fault::{json, of_store_for};
use crate::shared::Jobs;

/// The longest time after which a client is asked to look again, in seconds.
const LOOK_AGAIN_S: u64 = 60;

/// The object of a job, without its result.
pub(crate) fn brief(jobs: &Jobs, job: &Job) -> Value {
    let context = JobContext { base_url: &jobs.options.base_url, ..JobContext::default() };
    serde_json::to_value(job_object(job, &context)).expect("names of the object are strings")
}

/// The answer with a job: its object, with the result if it is not too long, and what caches and pollers need.
///
/// # Errors
/// A result that the store does not give.
pub(crate) async fn whole(jobs: &Jobs, job: &Job) -> Result<Response, Fault> {
    let inline = job.result_bytes.is_some_and(|bytes| bytes <= jobs.options.inline_result_bytes);
    let result = match job.status.is_terminal() && inline {
        true => Some(jobs.store.result(&job.id).await.map_err(|error| of_store_for(error, &job.id))?),
        false => None,
    };
    let seed = if job.status.is_terminal() { seed(jobs, job).await } else { None };
    let job = live(jobs, job);
    let context = JobContext {
        base_url: &jobs.options.base_url,
        result: result.as_deref().filter(|result| !result.is_empty()),
        seed,
        ..JobContext::default()
    };
    let mut response = json(&job_object(&job, &context));
    add_headers(jobs, &job, response.headers_mut()).await;
    Ok(response)
}

/// The seed with which the answer was computed.
async fn seed(jobs: &Jobs, job: &Job) -> Option<u64> {
    #[derive(Deserialize)]
    struct Seeded {
        seed: Option<u64>,
    }
    let body = jobs.store.body(&job.id).await.ok()?;
    serde_json::from_slice::<Seeded>(&body).ok()?.seed
}

/// The job with the progress of this moment, if it runs in this process.
fn live(jobs: &Jobs, job: &Job) -> Job {
    let mut job = job.clone();
    if let Some(watch) = jobs.live.watch(&job.id).filter(|_| job.status == JobStatus::Running) {
        job.progress.output_tokens = job.progress.output_tokens.max(watch.count() as u64);
    }
    job
}

/// The entity tag of a job's state.
pub(crate) fn tag(job: &Job) -> String {
    format!("\"{}\"", job.sequence)
}

/// Adds the tag, and when to look again while the job is open.
pub(crate) async fn add_headers(jobs: &Jobs, job: &Job, headers: &mut HeaderMap) {
    if let Ok(tag) = HeaderValue::from_str(&tag(job)) {
        headers.insert(header::ETAG, tag);
    }
    if !job.status.is_terminal() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(look_again(jobs, job).await));
    }
}

/// Seconds after which the job may have ended.
async fn look_again(jobs: &Jobs, job: &Job) -> u64 {
    let before = if job.status == JobStatus::Queued { jobs.queued().await } else { 0 };
    let expected = jobs.executor.expected_seconds(before, job.progress.output_limit);
    // Whole seconds of a bounded number.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number from 1 to 60")]
    let seconds = expected.unwrap_or(1.0).clamp(1.0, LOOK_AGAIN_S as f64).ceil() as u64;
    seconds
}

/// Whether the client has this state already.
pub(crate) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let Some(known) = headers.get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok()) else {
        return false;
    };
    known.split(',').map(str::trim).any(|known| known == "*" || known.trim_start_matches("W/") == tag)
}

/// 304 with a tag.
pub(crate) fn unchanged(tag: &str) -> Response {
    let mut response = Response::new(axum::body::Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    if let Ok(tag) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared() {
        let with = |value: &'static str| {
            HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_static(value))])
        };
        assert!(is_known(&with("\"5\""), "\"5\""));
        assert!(is_known(&with("\"4\", W/\"5\""), "\"5\""));
        assert!(is_known(&with("*"), "\"5\""));
        assert!(!is_known(&with("\"55\""), "\"5\""));
        assert!(!is_known(&HeaderMap::new(), "\"5\""));
    }
}
