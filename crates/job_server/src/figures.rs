//! The metrics of jobs as text, with the figures of now.

use events::{Format, JobCount, JobsNow};
use job_store::Stats;
use jobs::{BatchStatus, Class, JobStatus};

use crate::shared::Jobs;

/// All metrics of jobs. While the store cannot be reached, those that it is asked for are left out.
pub async fn metrics(jobs: &Jobs, format: Format) -> String {
    let now = jobs.now();
    let stats = match jobs.store.stats(now).await {
        Ok(stats) => stats,
        Err(error) => {
            tracing::warn!(%error, "the store of jobs tells no figures");
            Stats::default()
        }
    };
    let counts = stats.rows.iter().map(|row| JobCount {
        state: state(row.status),
        class: class(row.class),
        jobs: row.jobs,
        oldest_s: row.oldest.map(|oldest| (now - oldest).max(0) as f64 / 1e3),
    });
    let queued = stats.rows.iter().filter(|row| row.status == JobStatus::Queued).map(|row| row.jobs).sum();
    jobs.metrics.write(
        &JobsNow {
            counts: counts.collect(),
            batches: stats.batches.iter().map(|(status, count)| (batch_state(*status), *count)).collect(),
            dead: stats.dead,
            backlog_s: if queued == 0 { Some(0.0) } else { jobs.executor.expected_seconds(queued, None) },
            bytes: [stats.table_bytes, stats.blob_bytes],
        },
        format,
    )
}

fn state(status: JobStatus) -> &'static str {
    match status {
        JobStatus::Queued => "queued",
        JobStatus::Running => "running",
        JobStatus::Cancelling => "cancelling",
        JobStatus::Succeeded => "succeeded",
        JobStatus::Failed => "failed",
        JobStatus::Cancelled => "cancelled",
        JobStatus::Expired => "expired",
    }
}

fn class(class: Class) -> &'static str {
    match class {
        Class::Interactive => "interactive",
        Class::Default => "default",
        Class::Batch => "batch",
    }
}

fn batch_state(status: BatchStatus) -> &'static str {
    match status {
        BatchStatus::Validating => "validating",
        BatchStatus::InProgress => "in_progress",
        BatchStatus::Finalizing => "finalizing",
        BatchStatus::Completed => "completed",
        BatchStatus::Failed => "failed",
        BatchStatus::Expired => "expired",
        BatchStatus::Cancelling => "cancelling",
        BatchStatus::Cancelled => "cancelled",
    }
}
