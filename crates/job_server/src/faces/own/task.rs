//! Queued inference as published guides have it: `POST /generate` gives a task, `GET /status/{id}` tells of it.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use jobs::{Job, JobStatus};
use serde_json::{Map, Value, json};
use wire::Fault;

use super::submit::{Wanted, check, submit};
use super::view;
use crate::faces::ask::{Caller, idempotency};
use crate::faces::fault::{answer, json as respond, of_store_for};
use crate::shared::Jobs;

/// The endpoint that answers a task.
const ENDPOINT: &str = "/v1/completions";
/// Fields of a task. A body with others is another API's.
const FIELDS: [&str; 8] = ["prompt", "max_tokens", "temperature", "top_p", "top_k", "stop", "seed", "model"];

/// The body of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct GuideBody(Map<String, Value>);

/// The task that a body of `POST /generate` asks for; none if the body has another API's shape.
pub fn guide_body(body: &[u8]) -> Option<GuideBody> {
    let Ok(Value::Object(fields)) = serde_json::from_slice(body) else { return None };
    let fits = fields.keys().all(|name| FIELDS.contains(&name.as_str()));
    (fits && fields.get("prompt").is_some_and(Value::is_string)).then_some(GuideBody(fields))
}

/// Accepts a task: 202 with its id and where its state is found.
pub async fn accept_guide(jobs: &Jobs, head: Parts, body: GuideBody) -> Response {
    answer(accept(jobs, &head, body).await)
}

async fn accept(jobs: &Jobs, head: &Parts, body: GuideBody) -> Result<Response, Fault> {
    let caller = Caller::of(jobs, &head.extensions);
    let body = Value::Object(body.0).to_string().into_bytes();
    let key = idempotency(jobs, &caller, &head.headers, "POST /generate", || jobs::fingerprint(&body))?;
    let checked = check(jobs, ENDPOINT, body.clone(), &caller.key).await?;
    let submitted = submit(jobs, &caller, ENDPOINT, checked, Wanted::default(), key).await?;
    let job = &submitted.job;
    let place = format!("{}/status/{}", jobs.options.base_url.trim_end_matches('/'), job.id);
    let task = json!({"task_id": job.id, "status": status(job), "status_url": place});
    let mut response = respond(&task);
    *response.status_mut() = StatusCode::ACCEPTED;
    view::add_headers(jobs, job, response.headers_mut()).await;
    if let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    if submitted.replayed {
        response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// `GET /status/{id}`.
pub(crate) async fn retrieve(State(jobs): State<Arc<Jobs>>, Path(id): Path<String>, head: Parts) -> Response {
    let answered = async {
        let caller = Caller::of(&jobs, &head.extensions);
        let job = jobs.store.job(&id, caller.scope()).await.map_err(|error| of_store_for(error, &id))?;
        let result = match job.status {
            JobStatus::Succeeded => {
                let bytes = jobs.store.result(&id).await.map_err(|error| of_store_for(error, &id))?;
                text(&bytes)
            }
            _ => None,
        };
        let task = json!({"task_id": id, "status": status(&job), "result": result, "error": error(&job)});
        let mut response = respond(&task);
        view::add_headers(&jobs, &job, response.headers_mut()).await;
        Ok(response)
    };
    answer(answered.await)
}

/// A job's state in the words of the guides.
fn status(job: &Job) -> &'static str {
    match job.status {
        JobStatus::Queued => "pending",
        JobStatus::Running | JobStatus::Cancelling => "processing",
        JobStatus::Succeeded => "completed",
        JobStatus::Failed | JobStatus::Cancelled | JobStatus::Expired => "failed",
    }
}

/// The text of an answer; of what is no text, the JSON.
fn text(result: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(result).ok()?;
    let choice = &answer["choices"][0];
    let text = choice["text"].as_str().or_else(|| choice["message"]["content"].as_str());
    Some(text.map_or_else(|| answer.to_string(), str::to_owned))
}

fn error(job: &Job) -> Option<String> {
    let said = job.error.as_ref().map(|error| error.message.clone());
    match job.status {
        JobStatus::Failed | JobStatus::Expired => Some(said.unwrap_or_else(|| "the task failed".to_owned())),
        JobStatus::Cancelled => Some("the task was cancelled".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_guides_shape_is_a_task() {
        assert!(guide_body(br#"{"prompt": "a", "max_tokens": 5}"#).is_some());
        assert!(guide_body(br#"{"prompt": "a"}"#).is_some());
        for other in [
            &br#"{"inputs": "a"}"#[..],
            br#"{"prompt": "a", "inputs": "b"}"#,
            br#"{"prompt": "a", "stream": true}"#,
            br#"{"prompt": ["a"]}"#,
            br#"{"max_tokens": 5}"#,
            b"[]",
            b"{",
        ] {
            assert!(guide_body(other).is_none(), "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn a_text_is_found() {
        assert_eq!(text(br#"{"choices":[{"text":"a"}]}"#).unwrap(), "a");
        assert_eq!(text(br#"{"choices":[{"message":{"content":"b"}}]}"#).unwrap(), "b");
        assert_eq!(text(br#"{"data":[]}"#).unwrap(), r#"{"data":[]}"#);
    }
}
