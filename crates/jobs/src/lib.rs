//! Durable jobs as a state machine: what may happen to a job or a batch, and what follows.
//!
//! A job is one request of an inference endpoint that was accepted and will be finished once, whatever dies in between.
//! It is executed at least once, and its result becomes visible exactly once: each claim raises the job's *epoch*, every
//! write of a worker names the epoch that it holds, and a write of an older epoch changes nothing. A worker holds a job by
//! a *lease* that it renews while its engine makes progress.
//!
//! The crate decides only. Time is an argument in Unix milliseconds, random numbers are arguments; the rows are kept by the
//! crate `job_store`, requests are run by `job_server`.
//!
//! Deliberately absent: threads, clocks, files, sockets, and knowledge of models.

pub mod batch;
pub mod batch_transition;
pub mod beginning;
pub mod canonical;
pub mod checkpoint;
pub mod error_type;
pub mod file;
pub mod hash;
pub mod id;
pub mod idempotency;
pub mod job;
pub mod line;
pub mod line_file;
pub mod objects;
pub mod output;
pub mod prefix;
pub mod requests;
pub mod schedule;
pub mod time;
pub mod transition;

#[cfg(test)]
mod schema_check;

pub use batch::{Batch, BatchKind, BatchStatus, Counts, FileError, LineOutcome};
pub use batch_transition::{BatchChange, BatchRefused};
pub use beginning::beginning;
pub use file::{File, Purpose};
pub use hash::sha256_hex;
pub use idempotency::{fingerprint, idempotency_key};
pub use job::{Class, Face, Job, JobError, JobStatus, Progress, Usage};
pub use line::{Line, parse_line};
pub use line_file::{FileRules, Validator};
pub use prefix::{Order, Orderer, Reuse};
pub use requests::{Request, RequestReader, RequestRules, RequestsError};
pub use time::Millis;
pub use transition::{Change, Refused, Success};
