//! Where jobs, batches, files and webhooks are kept: one trait, in an SQLite file or a PostgreSQL database.
//!
//! Each call of [`Store`] is one transaction, durable when its future is ready; what concerns the many lines of a batch is
//! noted in one transaction and done in chunks of some hundred lines. What may happen to a row is decided by crate `jobs`;
//! the store reads the row, asks, and writes what came of it, so that both databases do the same.
//!
//! Deliberately absent: HTTP, models, and the clock (each call is told the time).

mod backend;
mod common;
mod contract;
#[cfg(feature = "postgres")]
mod copy;
mod error;
mod ops;
#[cfg(feature = "postgres")]
mod postgres;
mod rows;
mod schema;
mod sql;
mod sqlite;
mod store;
mod types;

#[cfg(feature = "postgres")]
pub use copy::Copied;
pub use error::StoreError;
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
pub use sqlite::{CheckReport, Exported, SqliteStore};
pub use store::{Answer, Store};
pub use types::{
    Accepted, BatchFilter, CancelOutcome, Claim, Claimed, Document, DocumentFilter, FileFilter, Finish,
    Finished, IdempotencyKey, JobEvent, JobFilter, LineResult, NewJob, NewLine, Page, Renewal, Renewed,
    Stats, StatsRow, StoreLimits, Swept, Worker,
};
