//! Waiting for the end of a job.

use std::time::Duration;

use job_store::StoreError;
use jobs::Job;
use tokio::time::Instant;

use crate::shared::Jobs;

/// The longest time that a request waits.
pub(crate) const MOST_WAIT_S: u64 = 60;

/// The job once it has ended, or as it is when the time is over or the server stops.
///
/// # Errors
/// A job that is not there, or a store out of reach.
pub(crate) async fn end(
    jobs: &Jobs,
    id: &str,
    scope: Option<&str>,
    most: Duration,
) -> Result<Job, StoreError> {
    let deadline = Instant::now() + most;
    // Without a place to wait, the job is answered as it is: the client asks again.
    let Some(watched) = jobs.watch(id).filter(|_| !most.is_zero()) else {
        return jobs.store.job(id, scope).await;
    };
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let changed = watched.changed(left.min(jobs.options.look));
        let job = jobs.store.job(id, scope).await?;
        if job.status.is_terminal() || left.is_zero() {
            return Ok(job);
        }
        tokio::select! {
            () = changed => {}
            () = jobs.closed() => return Ok(job),
        }
    }
}
