//! The job object.

use super::usage::{UsageObject, usage_object};
use crate::error_type::openai_error_type;
use crate::job::{Class, Job, JobError, JobStatus, Progress};
use crate::time::seconds;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// A longer result is not part of the object.
pub const MAX_INLINE_RESULT: usize = 1 << 20;

/// What an object tells that the job does not know itself.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct JobContext<'a> {
    /// The server's own address, before `/v1/…`; empty makes paths.
    pub base_url: &'a str,
    /// The result's bytes, if they are to be in the object. Others than JSON, and more than 1 MiB, are left out.
    pub result: Option<&'a [u8]>,
    /// How many jobs are before it.
    pub position: Option<u64>,
    /// Tokens of the prompt that are done.
    pub prompt_done: Option<u64>,
    /// When it will have ended, in seconds from now. Without it, the time of the longest possible answer is told.
    pub eta_seconds: Option<f64>,
    /// SHA-256 of the model that ran it.
    pub model_sha256: Option<&'a str>,
    /// The seed of its request.
    pub seed: Option<u64>,
}

/// A job as the API shows it.
#[derive(Debug, Clone, Serialize)]
pub struct JobObject<'a> {
    /// The job's id.
    pub id: &'a str,
    object: &'static str,
    status: JobStatus,
    endpoint: &'a str,
    model: Option<&'a str>,
    priority: Class,
    created_at: i64,
    run_at: i64,
    started_at: Option<i64>,
    finished_at: Option<i64>,
    expires_at: Option<i64>,
    retain_until: Option<i64>,
    attempts: u32,
    max_attempts: u32,
    dead: bool,
    progress: ProgressObject<'a>,
    usage: Option<UsageObject>,
    cost: Option<f64>,
    status_code: Option<u16>,
    error: Option<ErrorObject<'a>>,
    result: Option<&'a RawValue>,
    result_url: Option<String>,
    events_url: String,
    cancel_url: String,
    result_sha256: Option<&'a str>,
    model_sha256: Option<&'a str>,
    seed: Option<u64>,
    batch_id: Option<&'a str>,
    custom_id: Option<&'a str>,
    metadata: &'a BTreeMap<String, String>,
}

#[derive(Debug, Clone, Serialize)]
struct ProgressObject<'a> {
    phase: &'a str,
    position: Option<u64>,
    prompt_tokens: Option<u64>,
    prompt_done: Option<u64>,
    output_tokens: u64,
    output_limit: Option<u64>,
    tokens_per_second: Option<f64>,
    eta_seconds: Option<f64>,
}

#[derive(Debug, Clone, Serialize)]
struct ErrorObject<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<&'a str>,
}

/// The object of a job. Times are Unix seconds, as in OpenAI's objects.
pub fn job_object<'a>(job: &'a Job, context: &JobContext<'a>) -> JobObject<'a> {
    let url = format!("{}/v1/jobs/{}", context.base_url.trim_end_matches('/'), job.id);
    JobObject {
        id: &job.id,
        object: "job",
        status: job.status,
        endpoint: &job.endpoint,
        model: Some(job.model.as_str()).filter(|model| !model.is_empty()),
        priority: job.class,
        created_at: seconds(job.created_at),
        run_at: seconds(job.run_at),
        started_at: job.started_at.map(seconds),
        finished_at: job.finished_at.map(seconds),
        expires_at: job.deadline.map(seconds),
        retain_until: job.retain_until().map(seconds),
        attempts: job.attempts,
        max_attempts: job.max_attempts,
        dead: job.dead,
        progress: progress(job, context),
        usage: job.usage.map(usage_object),
        cost: job.cost_micros.map(|micros| micros as f64 / 1e6),
        status_code: job.status_code,
        error: job.error.as_ref().map(|error| error_object(error, job.status_code)),
        result: context.result.and_then(inline_result),
        result_url: job.result_sha256.is_some().then(|| format!("{url}/result")),
        events_url: format!("{url}/events"),
        cancel_url: format!("{url}/cancel"),
        result_sha256: job.result_sha256.as_deref(),
        model_sha256: context.model_sha256,
        seed: context.seed,
        batch_id: job.batch.as_deref(),
        custom_id: job.custom_id.as_deref(),
        metadata: &job.metadata,
    }
}

fn inline_result(bytes: &[u8]) -> Option<&RawValue> {
    if bytes.len() > MAX_INLINE_RESULT { None } else { serde_json::from_slice(bytes).ok() }
}

fn error_object(error: &JobError, status_code: Option<u16>) -> ErrorObject<'_> {
    ErrorObject {
        code: &error.code,
        message: &error.message,
        kind: openai_error_type(status_code),
        param: error.param.as_deref(),
    }
}

fn progress<'a>(job: &'a Job, context: &JobContext<'a>) -> ProgressObject<'a> {
    let progress = &job.progress;
    let open = !job.status.is_terminal();
    let decoding = progress.phase == "decode";
    ProgressObject {
        phase: &progress.phase,
        position: context.position.filter(|_| job.status == JobStatus::Queued),
        prompt_tokens: progress.prompt_tokens,
        prompt_done: context.prompt_done.or(progress.prompt_tokens.filter(|_| decoding)),
        output_tokens: progress.output_tokens,
        output_limit: progress.output_limit,
        tokens_per_second: progress.tokens_per_second.filter(|rate| rate.is_finite()),
        eta_seconds: context.eta_seconds.or_else(|| longest_seconds(progress)).filter(|_| open),
    }
}

/// Seconds until the answer has as many tokens as it may have.
fn longest_seconds(progress: &Progress) -> Option<f64> {
    let left = progress.output_limit?.saturating_sub(progress.output_tokens);
    let rate = progress.tokens_per_second.filter(|rate| *rate > 0.0)?;
    Some(left as f64 / rate)
}
