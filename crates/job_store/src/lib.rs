//! Where jobs, batches, files and webhooks are kept: one trait, in an SQLite file or a PostgreSQL database.
//!
//! Each call of [`Store`] is one transaction, durable when its future is ready. What may happen to a row is decided by
//! crate `jobs`; the store reads the row, asks, and writes what came of it, so that both databases do the same.
//!
//! Deliberately absent: HTTP, models, and the clock (each call is told the time).

mod store;

pub use store::{
    Accepted, Answer, BatchFilter, CancelOutcome, Claim, Claimed, Document, DocumentFilter, FileFilter,
    Finish, Finished, IdempotencyKey, JobEvent, JobFilter, LineResult, NewJob, NewLine, Page, Renewal,
    Renewed, Stats, StatsRow, Store, StoreError, StoreLimits, Swept, Worker,
};
