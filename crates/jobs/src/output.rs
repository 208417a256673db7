//! Lines of the files that a batch writes: from a line's job and the bytes of its result.

use crate::job::{Job, JobError, JobStatus};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Which of an OpenAI batch's files a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// The file with the answers.
    Output,
    /// The file with the errors.
    Errors,
}

/// Which file a line belongs to: answers, or whatever else became of it.
pub fn place(job: &Job) -> Place {
    if job.status == JobStatus::Succeeded { Place::Output } else { Place::Errors }
}

#[derive(Serialize)]
struct OpenAiLine<'a> {
    id: &'a str,
    custom_id: Option<&'a str>,
    response: Option<OpenAiResponse<'a>>,
    error: Option<LineError<'a>>,
}

#[derive(Serialize)]
struct OpenAiResponse<'a> {
    status_code: u16,
    request_id: String,
    body: Body<'a>,
}

#[derive(Serialize)]
struct LineError<'a> {
    code: &'a str,
    message: &'a str,
}

/// A result inside of a line: as it is if it is JSON, else as a string.
#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Json(&'a RawValue),
    Text(Cow<'a, str>),
}

/// A line of an OpenAI batch's output or error file, without a line feed. An answer of the endpoint is a `response` whatever
/// its status; a line that got none is an `error`.
pub fn openai_line(job: &Job, result: &[u8]) -> Vec<u8> {
    let one_line = on_one_line(result);
    let answered = matches!(job.status, JobStatus::Succeeded | JobStatus::Failed) && !result.is_empty();
    let response = job.status_code.filter(|_| answered).map(|status_code| OpenAiResponse {
        status_code,
        request_id: request_id(&job.id),
        body: body(&one_line),
    });
    let error = if response.is_some() { None } else { Some(line_error(job)) };
    json(&OpenAiLine { id: &job.id, custom_id: job.custom_id.as_deref(), response, error })
}

fn line_error(job: &Job) -> LineError<'_> {
    match (job.status, &job.error) {
        (JobStatus::Cancelled, _) => LineError {
            code: "batch_cancelled",
            message: "The batch was cancelled before this request was finished.",
        },
        (JobStatus::Expired, _) => LineError {
            code: "batch_expired",
            message: "This request was not finished within the batch's completion window.",
        },
        (_, Some(error)) => LineError { code: &error.code, message: &error.message },
        (_, None) => LineError { code: "server_error", message: "The request has no answer." },
    }
}

#[derive(Serialize)]
struct AnthropicLine<'a> {
    custom_id: Option<&'a str>,
    result: AnthropicResult<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicResult<'a> {
    Succeeded { message: &'a RawValue },
    Errored { error: AnthropicError<'a> },
    Canceled,
    Expired,
}

#[derive(Serialize)]
#[serde(untagged)]
enum AnthropicError<'a> {
    AsAnswered(&'a RawValue),
    Made(MadeError<'a>),
}

#[derive(Serialize)]
struct MadeError<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    error: MadeReason<'a>,
    request_id: String,
}

#[derive(Serialize)]
struct MadeReason<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    message: &'a str,
}

/// A line of a message batch's results, without a line feed.
pub fn anthropic_line(job: &Job, result: &[u8]) -> Vec<u8> {
    let one_line = on_one_line(result);
    let object = raw(&one_line).filter(|raw| raw.get().starts_with('{'));
    let result = match (job.status, object) {
        (JobStatus::Cancelled, _) => AnthropicResult::Canceled,
        (JobStatus::Expired, _) => AnthropicResult::Expired,
        (JobStatus::Succeeded, Some(message)) => AnthropicResult::Succeeded { message },
        (JobStatus::Failed, Some(error)) if is_anthropic_error(error) => {
            AnthropicResult::Errored { error: AnthropicError::AsAnswered(error) }
        }
        _ => AnthropicResult::Errored { error: AnthropicError::Made(made_error(job)) },
    };
    json(&AnthropicLine { custom_id: job.custom_id.as_deref(), result })
}

fn is_anthropic_error(body: &RawValue) -> bool {
    serde_json::from_str::<Value>(body.get())
        .is_ok_and(|body| body["type"] == "error" && body["error"]["type"].is_string())
}

fn made_error(job: &Job) -> MadeError<'_> {
    let message = job.error.as_ref().map_or("The request has no answer.", |error: &JobError| &error.message);
    MadeError {
        kind: "error",
        error: MadeReason { kind: anthropic_error_type(job.status_code), message },
        request_id: request_id(&job.id),
    }
}

/// The type of an error in Anthropic's words, by its HTTP status.
pub fn anthropic_error_type(status_code: Option<u16>) -> &'static str {
    match status_code {
        Some(400 | 422) => "invalid_request_error",
        Some(401) => "authentication_error",
        Some(402) => "billing_error",
        Some(403) => "permission_error",
        Some(404) => "not_found_error",
        Some(413) => "request_too_large",
        Some(429) => "rate_limit_error",
        Some(504) => "timeout_error",
        Some(503 | 529) => "overloaded_error",
        _ => "api_error",
    }
}

/// The id of a line's request: that of its job, with its own prefix.
fn request_id(job: &str) -> String {
    format!("req_{}", job.rsplit('_').next().unwrap_or(job))
}

fn body(bytes: &[u8]) -> Body<'_> {
    raw(bytes).map_or_else(|| Body::Text(String::from_utf8_lossy(bytes)), Body::Json)
}

fn raw(bytes: &[u8]) -> Option<&RawValue> {
    serde_json::from_slice(bytes).ok()
}

/// Line feeds of JSON lie between its tokens, where a space does as well. What is no JSON becomes a string, whose line
/// feeds are escaped.
fn on_one_line(bytes: &[u8]) -> Cow<'_, [u8]> {
    let ends_line = |byte: &u8| matches!(byte, b'\n' | b'\r');
    if !bytes.iter().any(ends_line) || raw(bytes).is_none() {
        return Cow::Borrowed(bytes);
    }
    Cow::Owned(bytes.iter().map(|byte| if ends_line(byte) { b' ' } else { *byte }).collect())
}

fn json(line: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(line)
        .expect("a line has names that are strings, and nothing in it can fail to be written")
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
