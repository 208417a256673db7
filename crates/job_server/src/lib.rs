//! Durable jobs over HTTP, and the loop that runs them.
//!
//! A request is accepted into the store ([`job_store`]) before its client hears of it. The [`runner`] claims jobs as its
//! [`Executor`] has room, renews their leases while the engine makes steps, and writes each result with the epoch that it
//! holds. The APIs (own jobs, OpenAI's files and batches, Anthropic's message batches) are views of the same rows.
//!
//! The crate knows no model and no engine: requests are run by whoever implements [`Executor`], one machine's service or
//! a gateway.

mod executor;
pub mod faces;
mod shared;
mod watchers;

pub use executor::{Checked, Executor, Ran, Watch, Work};
pub use shared::{Jobs, Options, Retention};
