//! The contract of a store.

use crate::error::StoreError;
use crate::types::{
    Accepted, BatchFilter, CancelOutcome, Claim, Claimed, Document, DocumentFilter, FileFilter, Finish,
    Finished, IdempotencyKey, JobEvent, JobFilter, LineResult, NewJob, NewLine, Page, Renewal, Renewed,
    Stats, Swept, Worker,
};
use jobs::batch::{Batch, FileError};
use jobs::{File, Job, Millis};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// The answer of a store, as a future. It may be dropped; what it asked for is then done or not.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

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

    /// Events of a job after one, at most 64 are kept; lines of batches have none.
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
    /// `gapless`. Fewer may come (1,000 lines or 64 MiB at once), but none only if none follows: go on after the last one.
    fn lines(&self, batch: &str, from: u64, limit: usize, gapless: bool) -> Answer<'_, Vec<LineResult>>;

    /// Begins or goes on with a file's bytes: `bytes` at `offset`, which is at most what was written; what was there after it
    /// is forgotten. Durable only after [`Store::seal_file`]: bytes that are not sealed end with the process.
    fn write_file(&self, id: &str, offset: u64, bytes: Vec<u8>) -> Answer<'_, ()>;

    /// Makes a written file visible, whole, if it is as long as `file` says. A file of this id that is there already is replaced.
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
    fn wait_for_work(&self, most: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
