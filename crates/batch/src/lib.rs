//! A file of requests in, a file of answers out: resumable after any kill, in an order that computes shared beginnings once.

pub mod cancel;
pub mod endpoint;
pub mod error;
pub mod options;
pub mod report;
pub mod run;
pub mod runner;

pub use cancel::Cancel;
pub use endpoint::Endpoint;
pub use error::Error;
pub use options::{Format, Input, Options, Order, Prices};
pub use report::{Counts, Outcome, Phase, Plan, Progress, Report, Stopped, Tokens, Watcher};
pub use run::{Streams, plan, run};
pub use runner::{AskError, BoxFuture, Reply, Runner};
