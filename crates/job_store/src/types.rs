//! What a store is asked, and what it answers.

use jobs::batch::Batch;
use jobs::job::{Class, Job, JobError, JobStatus, Progress, Usage};
use jobs::{Millis, Purpose};

/// Bounds of what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Open jobs that are not lines of batches.
    pub open_jobs: u64,
    /// Of these, of one key.
    pub open_jobs_of_key: u64,
    /// Open lines of all batches.
    pub open_lines: u64,
    /// Bytes of bodies, results and files.
    pub bytes: u64,
}

impl Default for StoreLimits {
    fn default() -> StoreLimits {
        StoreLimits { open_jobs: 10_000, open_jobs_of_key: 2_000, open_lines: 1_000_000, bytes: 10 << 30 }
    }
}

/// A job to be accepted, with the body of its request.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// The job, as [`jobs::job::Job`] is before anything has happened to it.
    pub job: Job,
    /// The request's body.
    pub body: Vec<u8>,
}

/// A client's idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The name of the API key.
    pub key: String,
    /// The route, such as `POST /v1/jobs`.
    pub route: String,
    /// What the client sent.
    pub value: String,
    /// SHA-256 of the canonical body, in hex.
    pub fingerprint: String,
    /// When it is forgotten.
    pub expires_at: Millis,
}

/// What became of an offer.
#[derive(Clone, Debug, PartialEq)]
pub enum Accepted {
    /// The job is kept and will be run.
    New(Job),
    /// The same request was accepted before under this idempotency key: its job, as it is now.
    Before(Job),
}

/// A line of a batch, as a job to be.
#[derive(Clone, Debug)]
pub struct NewLine {
    /// The line as a job; its `line` is set.
    pub job: Job,
    /// The line's body.
    pub body: Vec<u8>,
}

/// A process that runs jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Unique for each start of a process.
    pub id: String,
    /// The host's name and process id, for people.
    pub place: String,
}

/// A question for work.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Who asks.
    pub worker: String,
    /// At most so many jobs.
    pub most: usize,
    /// Whether the worker has nothing else to do, so that a job that was lost twice can be run alone. If such a job is
    /// given, it is the only one.
    pub idle: bool,
    /// Until when the leases are valid.
    pub lease_until: Millis,
    /// Only jobs of these classes.
    pub classes: Vec<Class>,
}

/// A job that a worker holds now.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The job; its `epoch` is the one that the worker holds.
    pub job: Job,
    /// The request's body.
    pub body: Vec<u8>,
    /// The last checkpoint of an earlier attempt.
    pub checkpoint: Option<Vec<u8>>,
}

/// A lease that is to be renewed.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// The job.
    pub id: String,
    /// The epoch that the worker holds.
    pub epoch: u64,
    /// Until when.
    pub lease_until: Millis,
    /// How far it is.
    pub progress: Progress,
    /// The tokens so far, if they are to be kept.
    pub checkpoint: Option<Vec<u8>>,
}

/// What became of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The worker goes on.
    Kept,
    /// The worker is to stop the job and to say so by [`Finish::Cancelled`].
    Cancel,
    /// The lease is another's or the job has ended: the worker drops what it has.
    Lost,
}

/// How a job ended at its worker.
#[derive(Clone, Debug)]
pub enum Finish {
    /// With a result.
    Succeeded {
        /// HTTP status.
        status_code: u16,
        /// The answer's body.
        result: Vec<u8>,
        /// Tokens that it took.
        usage: Usage,
        /// What it cost, in millionths.
        cost_micros: Option<i64>,
    },
    /// By the request's own fault: no retry.
    Failed {
        /// HTTP status.
        status_code: u16,
        /// The error's body as the endpoint gave it.
        result: Vec<u8>,
        /// What it says.
        error: JobError,
    },
    /// By a fault that may pass: again at `run_at`, if attempts are left.
    Retry {
        /// What failed.
        error: JobError,
        /// HTTP status, if there was one.
        status_code: Option<u16>,
        /// A fraction in 0..1 by which the pause is spread.
        random: f64,
    },
    /// Stopped, because it was asked to.
    Cancelled {
        /// Tokens that it took.
        usage: Usage,
    },
    /// Given back by a worker that stops; counts as no attempt.
    Released {
        /// The tokens so far.
        checkpoint: Option<Vec<u8>>,
    },
}

/// What became of a write of a worker.
#[derive(Clone, Debug, PartialEq)]
pub enum Finished {
    /// It counts; the job as it is now.
    Done(Box<Job>),
    /// The epoch was old: nothing was changed.
    Fenced,
}

/// An event of a job, as its stream tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct JobEvent {
    /// Its number in the job, from 1.
    pub sequence: u64,
    /// Such as `job.running`.
    pub name: String,
    /// When.
    pub at: Millis,
    /// The [`Job`] at that time, as `serde_json` writes it.
    pub data: String,
}

/// A question for jobs. What is none is not asked.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// Only of this key; none is an operator who sees all.
    pub key: Option<String>,
    /// Only with this status.
    pub status: Option<JobStatus>,
    /// Only dead letters.
    pub dead: bool,
    /// Only of this model.
    pub model: Option<String>,
    /// Whether lines of batches are among them.
    pub lines: bool,
    /// Older than the job with this id.
    pub after: Option<String>,
    /// At most so many, newest first.
    pub limit: usize,
}

/// A question for batches.
#[derive(Clone, Debug)]
pub struct BatchFilter {
    /// Only of this key; none is an operator who sees all.
    pub key: Option<String>,
    /// Of this API; none is all.
    pub kind: Option<jobs::BatchKind>,
    /// Older than the batch with this id.
    pub after: Option<String>,
    /// Newer than the batch with this id (then the nearest ones).
    pub before: Option<String>,
    /// At most so many, newest first.
    pub limit: usize,
}

/// A question for files.
#[derive(Clone, Debug)]
pub struct FileFilter {
    /// Only of this key; none is an operator who sees all.
    pub key: Option<String>,
    /// Only for this purpose.
    pub purpose: Option<Purpose>,
    /// After the file with this id, in the order asked for.
    pub after: Option<String>,
    /// Whether the oldest come first.
    pub ascending: bool,
    /// At most so many.
    pub limit: usize,
}

/// Some rows of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Whether more follow.
    pub more: bool,
}

/// A line that has ended, with its result.
#[derive(Clone, Debug)]
pub struct LineResult {
    /// The line.
    pub job: Job,
    /// The answer's or the error's body; empty if the line was not run.
    pub result: Vec<u8>,
}

/// Jobs of one status and class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsRow {
    /// Status.
    pub status: JobStatus,
    /// Class.
    pub class: Class,
    /// How many.
    pub jobs: u64,
    /// Of queued ones: since when the oldest could run.
    pub oldest: Option<Millis>,
}

/// What is kept, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Jobs by status and class, lines of batches among them.
    pub rows: Vec<StatsRow>,
    /// Dead letters.
    pub dead: u64,
    /// Batches by status, in OpenAI's words.
    pub batches: Vec<(jobs::BatchStatus, u64)>,
    /// Bytes of the tables.
    pub table_bytes: u64,
    /// Bytes of files and large bodies.
    pub blob_bytes: u64,
}

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Leases that had ended: their jobs are queued again or dead.
    pub leases_lost: u64,
    /// Jobs whose deadline had passed.
    pub expired: u64,
    /// Jobs, batches and files whose time was over.
    pub deleted: u64,
    /// Jobs that ended by this sweep (lost for good, expired): somebody may want to be told.
    pub ended: Vec<String>,
}

/// A small JSON document of another part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Such as `webhook_endpoint` or `webhook_delivery`.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// The name of the API key that it belongs to.
    pub key: String,
    /// What it belongs to, such as the endpoint of a delivery; empty if nothing.
    pub group: String,
    /// When something is to be done with it.
    pub due: Option<Millis>,
    /// When it is deleted.
    pub expires_at: Option<Millis>,
    /// When it was made.
    pub created_at: Millis,
    /// The document as JSON; none deletes it.
    pub json: Option<String>,
}

/// A question for documents.
#[derive(Clone, Debug)]
pub struct DocumentFilter {
    /// The kind.
    pub kind: String,
    /// Only with this id.
    pub id: Option<String>,
    /// Only of this key.
    pub key: Option<String>,
    /// Only of this group.
    pub group: Option<String>,
    /// Older than the document with this id.
    pub after: Option<String>,
    /// At most so many.
    pub limit: usize,
}

/// What became of the wish to cancel a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum CancelOutcome {
    /// It is being cancelled, or is cancelled already.
    Cancelling(Box<Batch>),
    /// It had ended otherwise before.
    Ended(Box<Batch>),
}
