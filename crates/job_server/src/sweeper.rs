//! What is done now and then: leases and deadlines that are over, batches that go on, webhooks that are due.

use std::sync::Arc;
use std::time::Duration;

use jobs::Millis;
use tokio::time::{MissedTickBehavior, interval};

use crate::shared::Jobs;

/// Between two looks at batches while some have something to do.
const BATCHES: Duration = Duration::from_millis(500);
/// Between two sweeps of leases, deadlines and what need not be kept.
const SWEEP_MS: Millis = 5_000;

/// Sweeps until it is dropped.
pub(crate) async fn sweep(jobs: Arc<Jobs>) {
    let mut ticks = interval(BATCHES);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut next_sweep = 0;
    loop {
        ticks.tick().await;
        let now = jobs.now();
        if now >= next_sweep {
            next_sweep = now + SWEEP_MS;
            expire(&jobs, now).await;
        }
        // Lines cannot be checked before models are known: they would name none that there is.
        if !jobs.executor.is_ready() {
            continue;
        }
        match jobs.store.batches_due(now).await {
            Ok(due) => {
                for batch in due {
                    crate::batches::step(&jobs, batch).await;
                }
            }
            Err(error) => tracing::warn!(%error, "batches cannot be looked at"),
        }
    }
}

async fn expire(jobs: &Jobs, now: Millis) {
    match jobs.store.sweep(now).await {
        Ok(swept) => {
            if swept.leases_lost > 0 {
                tracing::warn!(
                    leases = swept.leases_lost,
                    "leases of jobs were over; the jobs are queued again"
                );
                jobs.metrics.leases_lost(swept.leases_lost);
            }
            swept.ended.iter().for_each(|id| jobs.tell(id));
        }
        Err(error) => tracing::warn!(%error, "the store of jobs was not swept"),
    }
}
