//! The contract of a store.

use jobs::batch::{Batch, FileError};
use jobs::job::{Class, Job, JobError, JobStatus, Progress, Usage};
use jobs::{File, Millis, Purpose};
use std::future::Future;
use std::pin::Pin;

/// A failed call of a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached, or did not do what was asked. The next call may succeed.
    #[error("{0}")]
    Unavailable(String),
    /// The disk or the quota of the database is full. Nothing was changed.
    #[error("the store is full: {0}")]
    Full(String),
    /// A bound of [`StoreLimits`] is reached; nothing was accepted.
    #[error("{what}: {most} at most")]
    Limit {
        /// Such as `open jobs of this key`.
        what: &'static str,
        /// The bound.
        most: u64,
    },
    /// The store was written by a later version of the program.
    #[error(
        "{place} has version {found} of the tables of jobs; this program knows up to {known}: use a later one"
    )]
    TooNew {
        /// The file or database.
        place: String,
        /// The version in it.
        found: i64,
        /// The last version that this program knows.
        known: i64,
    },
    /// Another process has the store open (SQLite).
    #[error(
        "{place} is in use by process {pid}: one server has a file of jobs at a time; several share a PostgreSQL database"
    )]
    InUse {
        /// The file.
        place: String,
        /// The process.
        pid: u32,
    },
    /// The file lies where SQLite cannot be trusted.
    #[error(
        "{place} lies on {kind}, a network file system: SQLite needs a local disk; several servers share a PostgreSQL database"
    )]
    NetworkFileSystem {
        /// The file.
        place: String,
        /// Such as `nfs`.
        kind: &'static str,
    },
    /// The file is damaged, and nothing was changed in it.
    #[error("{place} is damaged: {why}; `gristmill jobs check` says more")]
    Damaged {
        /// The file.
        place: String,
        /// What SQLite says.
        why: String,
    },
    /// The thing is not there, or not this key's.
    #[error("there is no {0}")]
    NotFound(&'static str),
    /// The thing was there; its time is over.
    #[error("the {0} is no longer kept")]
    Gone(&'static str),
    /// The thing is not in a state in which this can be done.
    #[error("{0}")]
    Conflict(String),
    /// The idempotency key was used for another request.
    #[error("the idempotency key was used for another request")]
    OtherRequest,
}

/// The answer of a store, as a future. It may be dropped; what it asked for is then done or not.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

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
    /// The job's object at that time, as JSON.
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

/// Where jobs are kept.
pub trait Store: Send + Sync {
    /// Accepts jobs, all or none: durable when it returns. Several callers' jobs share a synchronization of the disk.
    fn accept(&self, job: NewJob, key: Option<IdempotencyKey>, now: Millis) -> Answer<'_, Accepted>;

    /// A job; of another key, there is none.
    fn job(&self, id: &str, key: Option<&str>) -> Answer<'_, Job>;

    /// The body of a job's request.
    fn body(&self, id: &str) -> Answer<'_, Vec<u8>>;

    /// The body of a job's result or error; empty if there is none.
    fn result(&self, id: &str) -> Answer<'_, Vec<u8>>;

    /// Jobs, newest first.
    fn jobs(&self, filter: JobFilter) -> Answer<'_, Page<Job>>;

    /// Events of a job after one, at most 64 are kept.
    fn events(&self, id: &str, after: u64) -> Answer<'_, Vec<JobEvent>>;

    /// Gives queued jobs to a worker: the most urgent classes more often (16 : 4 : 1, none starves), inside a class the
    /// key that was served least lately, then by `run_at`, `prefix_rank` and id.
    fn claim(&self, claim: Claim, now: Millis) -> Answer<'_, Vec<Claimed>>;

    /// Renews leases, each by itself; an answer for each, in their order.
    fn renew(&self, renewals: Vec<Renewal>, now: Millis) -> Answer<'_, Vec<Renewed>>;

    /// Ends an attempt: the result, its usage, its event and the counts of its batch in one transaction.
    fn finish(&self, id: &str, epoch: u64, finish: Finish, now: Millis) -> Answer<'_, Finished>;

    /// Cancels a job: at once if it waits, else its worker learns of it. Idempotent.
    fn cancel(&self, id: &str, key: Option<&str>, now: Millis) -> Answer<'_, Job>;

    /// Queues an ended job again.
    fn retry(&self, id: &str, key: Option<&str>, deadline: Option<Millis>, now: Millis) -> Answer<'_, Job>;

    /// Deletes an ended job.
    fn delete(&self, id: &str, key: Option<&str>, now: Millis) -> Answer<'_, ()>;

    /// Keeps a batch in `validating`. Its input file must be this key's.
    fn create_batch(&self, batch: Batch, key: Option<IdempotencyKey>, now: Millis) -> Answer<'_, Batch>;

    /// A batch; of another key, there is none.
    fn batch(&self, id: &str, key: Option<&str>) -> Answer<'_, Batch>;

    /// Batches, newest first.
    fn batches(&self, filter: BatchFilter) -> Answer<'_, Page<Batch>>;

    /// Batches with something to do: validating, finalizing, cancelling, in progress without open lines, or out of time.
    /// At most 100.
    fn batches_due(&self, now: Millis) -> Answer<'_, Vec<Batch>>;

    /// Keeps a chunk of lines of a batch that is validated: the batch's `lines_read` grows. Nothing is claimed before
    /// [`Store::begin_batch`]. If `lines_read` is not `from`, nothing is changed: [`StoreError::Conflict`].
    fn add_lines(&self, batch: &str, from: u64, lines: Vec<NewLine>, now: Millis) -> Answer<'_, Batch>;

    /// All lines are there: they may be claimed.
    fn begin_batch(&self, batch: &str, ranks: Vec<(u64, i64)>, now: Millis) -> Answer<'_, Batch>;

    /// The input is at fault: the batch fails, its lines are deleted.
    fn fail_batch(&self, batch: &str, errors: Vec<FileError>, now: Millis) -> Answer<'_, Batch>;

    /// Cancels a batch: lines that wait are cancelled, workers of the others learn of it.
    fn cancel_batch(&self, batch: &str, key: Option<&str>, now: Millis) -> Answer<'_, CancelOutcome>;

    /// The batch's time is over: open lines expire.
    fn expire_batch(&self, batch: &str, now: Millis) -> Answer<'_, Batch>;

    /// Every line has ended: chooses the ids of the files, so that whoever writes them after a crash writes the same.
    fn finalize_batch(
        &self,
        batch: &str,
        output: Option<String>,
        errors: Option<String>,
        now: Millis,
    ) -> Answer<'_, Batch>;

    /// The files are written: the batch ends as completed, expired or cancelled.
    fn end_batch(&self, batch: &str, now: Millis) -> Answer<'_, Batch>;

    /// Deletes an ended batch.
    fn delete_batch(&self, batch: &str, key: Option<&str>, now: Millis) -> Answer<'_, ()>;

    /// Lines of a batch from one on, by number, at most `limit`: those that have ended, up to the first that has not if
    /// `gapless`.
    fn lines(&self, batch: &str, from: u64, limit: usize, gapless: bool) -> Answer<'_, Vec<LineResult>>;

    /// Begins or goes on with a file's bytes: `bytes` at `offset`. Durable only after [`Store::seal_file`].
    fn write_file(&self, id: &str, offset: u64, bytes: Vec<u8>) -> Answer<'_, ()>;

    /// Makes a written file visible, whole. A file of this id that is there already is replaced.
    fn seal_file(&self, file: File, now: Millis) -> Answer<'_, File>;

    /// Forgets a file that was begun and not sealed.
    fn discard_file(&self, id: &str) -> Answer<'_, ()>;

    /// A file; of another key, there is none.
    fn file(&self, id: &str, key: Option<&str>) -> Answer<'_, File>;

    /// Bytes of a file: at most `most` from `offset`, empty at its end.
    fn read_file(&self, id: &str, offset: u64, most: usize) -> Answer<'_, Vec<u8>>;

    /// Files.
    fn files(&self, filter: FileFilter) -> Answer<'_, Page<File>>;

    /// Deletes a file that no open batch reads ([`StoreError::Conflict`] otherwise).
    fn delete_file(&self, id: &str, key: Option<&str>, now: Millis) -> Answer<'_, ()>;

    /// Keeps a document of another part (webhook endpoints and deliveries) under a kind and an id, with what it is found
    /// by. None deletes it.
    fn put_document(&self, document: Document, now: Millis) -> Answer<'_, ()>;

    /// Takes documents of a kind that are due, at most `most`: their `due` becomes `lease_until`, so that nobody else
    /// takes them meanwhile.
    fn take_due(
        &self,
        kind: &str,
        most: usize,
        lease_until: Millis,
        now: Millis,
    ) -> Answer<'_, Vec<Document>>;

    /// Documents of a kind, newest first; of a key, of a group.
    fn documents(&self, filter: DocumentFilter) -> Answer<'_, Page<Document>>;

    /// Says that a worker lives. Its row is deleted after an hour of silence.
    fn seen(&self, worker: Worker, now: Millis) -> Answer<'_, ()>;

    /// Takes back the leases of workers that cannot live any more: at the start of a server on SQLite, all. Returns how
    /// many. PostgreSQL: none.
    fn take_back(&self, now: Millis) -> Answer<'_, u64>;

    /// Queues jobs whose leases have ended, expires those whose deadline has passed, deletes what need not be kept.
    /// Bounded: some thousand rows a call.
    fn sweep(&self, now: Millis) -> Answer<'_, Swept>;

    /// What is kept, in numbers.
    fn stats(&self, now: Millis) -> Answer<'_, Stats>;

    /// Waits until jobs may have been queued, at most `most`. Only a hint: whoever waits asks again in any case.
    fn wait_for_work(&self, most: std::time::Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
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
