//! A file of requests in, a file of answers out: resumable after any kill, in an order that computes shared beginnings once.
//!
//! The input is read twice. First each line becomes a row of the *journal*, a database beside the output, in which equal
//! requests are one; the requests are run in windows that are ordered by their beginnings; each answer is kept in the
//! journal. At the end the input is read again beside the journal, and the output is written whole, in the order of the
//! input. So the bytes of the output do not depend on how often the run was killed, nor memory on the number of lines.
//!
//! Who answers is a [`Runner`] of the caller's; [`run()`] needs a Tokio runtime with time.

pub mod cancel;
pub mod endpoint;
pub mod error;
pub mod options;
pub mod plan;
pub mod report;
pub mod run;
pub mod runner;

mod ask;
#[cfg(feature = "parquet")]
mod columnar;
mod drive;
mod fault;
mod feed;
mod hashing;
mod index;
mod input;
mod journal;
mod meter;
mod open;
mod output;
mod request;
mod setup;
mod template;

pub use cancel::Cancel;
pub use endpoint::Endpoint;
pub use error::Error;
pub use options::{Format, Input, Options, Order, Prices};
pub use plan::plan;
pub use report::{Counts, Outcome, Phase, Plan, Progress, Report, Stopped, Tokens, Watcher};
pub use run::{Streams, run};
pub use runner::{AskError, BoxFuture, Reply, Runner};
