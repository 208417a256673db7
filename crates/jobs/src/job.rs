//! A job: one request that is run until it has ended.

use crate::time::Millis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which API made a job. A line of a batch is a job too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Face {
    /// `POST /v1/jobs`, `Prefer: respond-async`, or `POST /generate` with a task id.
    Job,
    /// A line of an OpenAI batch.
    BatchLine,
    /// A request of an Anthropic message batch.
    MessageLine,
    /// A response of the Responses API with `background: true`.
    Response,
}

/// How urgent a job is: the class in which the engine runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Before everything else.
    Interactive = 0,
    /// As requests that somebody waits for.
    Default = 1,
    /// When nothing else is to be done.
    Batch = 2,
}

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// Waits for a worker, or for `run_at`.
    Queued,
    /// A worker holds its lease.
    Running,
    /// Running, and asked to stop.
    Cancelling,
    /// Ended with a result.
    Succeeded,
    /// Ended with an error.
    Failed,
    /// Ended because somebody asked for that.
    Cancelled,
    /// Ended because its deadline passed.
    Expired,
}

impl JobStatus {
    /// Whether the job has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, JobStatus::Succeeded | JobStatus::Failed | JobStatus::Cancelled | JobStatus::Expired)
    }
}

/// How far a running job is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// `waiting`, `prefill` or `decode`.
    pub phase: String,
    /// Tokens of the prompt, once known.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the answer so far.
    pub output_tokens: u64,
    /// The most tokens that the answer may have, where known.
    pub output_limit: Option<u64>,
    /// Tokens of the answer a second, since the first one.
    pub tokens_per_second: Option<f64>,
}

/// Tokens that a job took, summed over the prompts and answers of its request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Of these, found in the prefix cache.
    pub cached_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Of these, of the model's reasoning.
    pub reasoning_tokens: u64,
}

/// Why a job failed, in OpenAI's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobError {
    /// A word for programs, such as `worker_lost` or `context_length_exceeded`.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    /// The field of the request that is at fault, if one is.
    pub param: Option<String>,
}

/// A job, without the bytes of its request and its result, which the store keeps beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// `job_…`; of a response `resp_…`; of a batch's line `batch_req_…`.
    pub id: String,
    /// The name of the API key that made it; empty without keys. Others do not see it.
    pub key: String,
    /// Which API made it.
    pub face: Face,
    /// The batch of a line.
    pub batch: Option<String>,
    /// The number of a line in its batch, from 0.
    pub line: Option<u64>,
    /// The client's name for a line.
    pub custom_id: Option<String>,
    /// The path of the endpoint, such as `/v1/chat/completions`.
    pub endpoint: String,
    /// The model that the request names; empty for the default one.
    pub model: String,
    /// SHA-256 of the body, in hex.
    pub body_sha256: String,
    /// How urgent it is.
    pub class: Class,
    /// The place of a line in the order that shares beginnings; 0 for others.
    pub prefix_rank: i64,
    /// Where it stands.
    pub status: JobStatus,
    /// Raised by each claim and by each retry by hand; a write that names an older one is refused.
    pub epoch: u64,
    /// The worker that holds the lease.
    pub worker: Option<String>,
    /// When the lease ends.
    pub lease_until: Option<Millis>,
    /// Claims so far, without those that were given back by a drain.
    pub attempts: u32,
    /// After this many, a failure that could be retried is final.
    pub max_attempts: u32,
    /// Leases that were lost: after two the job is run alone, after three it is a dead letter.
    pub lost_leases: u32,
    /// Not claimed before this time.
    pub run_at: Millis,
    /// Ended as expired after this time.
    pub deadline: Option<Millis>,
    /// When it was accepted.
    pub created_at: Millis,
    /// When it was claimed first.
    pub started_at: Option<Millis>,
    /// When it ended.
    pub finished_at: Option<Millis>,
    /// How long it is kept after it has ended, in milliseconds.
    pub retain: Millis,
    /// How far it is.
    pub progress: Progress,
    /// HTTP status of the result, or of the error that ended it.
    pub status_code: Option<u16>,
    /// SHA-256 of the result, in hex.
    pub result_sha256: Option<String>,
    /// Bytes of the result.
    pub result_bytes: Option<u64>,
    /// Why it failed, or failed last.
    pub error: Option<JobError>,
    /// Tokens that it took.
    pub usage: Option<Usage>,
    /// What it cost by the server's price list, in millionths of its currency.
    pub cost_micros: Option<i64>,
    /// Whether it failed for good by a fault that was not its own: a dead letter.
    pub dead: bool,
    /// When somebody asked to cancel it.
    pub cancel_requested_at: Option<Millis>,
    /// Up to 16 pairs of the client's.
    pub metadata: BTreeMap<String, String>,
    /// Who is told when it ends: a URL or the id of a webhook endpoint.
    pub webhook: Option<String>,
    /// The number of its last event; each change raises it.
    pub sequence: u64,
}

impl Progress {
    /// Nothing is done yet.
    pub fn waiting() -> Progress {
        Progress { phase: "waiting".to_owned(), ..Progress::default() }
    }
}

impl Usage {
    /// Tokens of the prompt and of the answer.
    pub fn total_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Usage) -> Usage {
        Usage {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
        }
    }
}

/// Attempts of a job for which nothing else was asked.
pub const DEFAULT_ATTEMPTS: u32 = 3;
/// A job is kept for a week after it has ended if nothing else was asked, in milliseconds.
pub const DEFAULT_RETAIN: Millis = 7 * 24 * 60 * 60 * 1_000;

impl Job {
    /// A job that was just accepted: queued, to be run at once, without a deadline. Its acceptance is event 1.
    pub fn new(id: String, face: Face, endpoint: String, now: Millis) -> Job {
        Job {
            id,
            key: String::new(),
            face,
            batch: None,
            line: None,
            custom_id: None,
            endpoint,
            model: String::new(),
            body_sha256: String::new(),
            class: Class::Default,
            prefix_rank: 0,
            status: JobStatus::Queued,
            epoch: 0,
            worker: None,
            lease_until: None,
            attempts: 0,
            max_attempts: DEFAULT_ATTEMPTS,
            lost_leases: 0,
            run_at: now,
            deadline: None,
            created_at: now,
            started_at: None,
            finished_at: None,
            retain: DEFAULT_RETAIN,
            progress: Progress::waiting(),
            status_code: None,
            result_sha256: None,
            result_bytes: None,
            error: None,
            usage: None,
            cost_micros: None,
            dead: false,
            cancel_requested_at: None,
            metadata: BTreeMap::new(),
            webhook: None,
            sequence: 1,
        }
    }

    /// When the job is deleted; none while it is open.
    pub fn retain_until(&self) -> Option<Millis> {
        self.finished_at.map(|end| end.saturating_add(self.retain))
    }
}
