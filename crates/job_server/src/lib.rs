//! Durable jobs over HTTP, and the loop that runs them.
//!
//! A request is accepted into the store ([`job_store`]) before its client hears of it. The runner claims jobs as its
//! [`Executor`] has room, renews their leases while the engine makes steps, and writes each result with the epoch that it
//! holds. The APIs (own jobs, OpenAI's files and batches, Anthropic's message batches) are views of the same rows.
//!
//! The crate knows no model and no engine: requests are run by whoever implements [`Executor`], one machine's service or
//! a gateway.

mod batches;
mod documents;
mod executor;
pub mod faces;
mod figures;
pub mod in_process;
mod live;
mod mean_time;
mod runner;
mod shared;
mod sweeper;
mod underway;
mod watchers;
mod webhooks_out;

use std::future::Future;
use std::sync::Arc;

pub use executor::{Begun, Checked, Executor, Ran, Seen, Watch, Work};
pub use figures::metrics;
pub use live::Live;
pub use mean_time::MeanTime;
pub use shared::{Jobs, Options, Retention};

/// Runs jobs, batches and webhooks until `stop` is done; then gives back what runs, with what there is of it.
pub async fn run(jobs: Arc<Jobs>, stop: impl Future<Output = ()>) {
    match jobs.store.take_back(jobs.now()).await {
        Ok(0) => {}
        Ok(leases) => {
            tracing::warn!(leases, "jobs that ran when the last server ended are queued again");
            jobs.metrics.leases_lost(leases);
        }
        Err(error) => {
            tracing::error!(%error, "leases of the last server were not taken back; they end in a minute")
        }
    }
    tokio::select! {
        () = runner::run(jobs.clone(), stop) => {}
        () = sweeper::sweep(jobs.clone()) => {}
        () = webhooks_out::run(jobs.clone()) => {}
    }
}
