//! What is done with a batch beside running its lines: its input is checked and becomes jobs, and when these have ended, its
//! files are written.
//!
//! Everything can be begun again after a crash: lines are added from the first that is missing, and the ids of the files are
//! chosen before these are written.

mod finalize;
mod input;
mod prepare;
mod validate;

use std::sync::Arc;
use std::time::Duration;

use job_store::StoreError;
use jobs::{Batch, BatchStatus};
use tokio::time::Instant;

use crate::shared::Jobs;

/// For so long a client waits until the requests of its batch are known.
const BEGIN: Duration = Duration::from_secs(60);

/// Gives a batch back, also if the work on it panicked.
struct Turn {
    jobs: Arc<Jobs>,
    id: String,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.jobs.underway.end(&self.id);
    }
}

/// Begins what is next for a batch that is due, beside the caller: a large input takes a while.
pub(crate) async fn step(jobs: &Arc<Jobs>, batch: Batch) {
    if !jobs.underway.begin(&batch.id) {
        return;
    }
    let turn = Turn { jobs: jobs.clone(), id: batch.id.clone() };
    tokio::spawn(async move {
        if let Err(error) = advance(&turn.jobs, batch).await {
            tracing::warn!(batch = turn.id, %error, "a batch does not go on yet");
        }
        turn.jobs.tell(&turn.id);
    });
}

/// The batch once its requests are known, so that they can be counted and cancelled; after a while, the batch as it is.
///
/// # Errors
/// A store out of reach.
pub(crate) async fn begun(jobs: &Arc<Jobs>, mut batch: Batch) -> Result<Batch, StoreError> {
    let deadline = Instant::now() + BEGIN;
    while batch.status == BatchStatus::Validating && Instant::now() < deadline {
        let watched = jobs.watch(&batch.id);
        let look = jobs.options.look;
        let changed = watched.as_ref().map(|watched| watched.changed(look));
        step(jobs, batch.clone()).await;
        match changed {
            Some(changed) => changed.await,
            None => tokio::time::sleep(look).await,
        }
        batch = jobs.store.batch(&batch.id, None).await?;
    }
    Ok(batch)
}

/// Does what is next for a batch.
///
/// # Errors
/// A store that is full or out of reach; what is missing is done the next time.
pub(crate) async fn advance(jobs: &Arc<Jobs>, batch: Batch) -> Result<(), StoreError> {
    let now = jobs.now();
    let done = match batch.status {
        _ if batch.is_settled() => finalize::finalize(jobs, batch).await,
        BatchStatus::Validating | BatchStatus::InProgress if now >= batch.expires_at => {
            jobs.store.expire_batch(&batch.id, now).await.map(drop)
        }
        BatchStatus::Validating => validate::validate(jobs, batch).await,
        _ => Ok(()),
    };
    match done {
        // Somebody else did it, or the batch was cancelled meanwhile: the next look tells.
        Err(StoreError::Conflict(why)) => {
            tracing::debug!(why, "a batch has changed meanwhile");
            Ok(())
        }
        other => other,
    }
}
