//! Many jobs: lists, counts, and queueing ended ones again.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use job_store::{JobFilter, Stats, StoreError};
use jobs::objects::{JobContext, List, job_object};
use jobs::{Job, JobStatus, Millis};
use serde_json::{Map, Value, json};
use wire::Fault;

use crate::faces::ask::{Caller, Fields, Params, optional_body};
use crate::faces::fault::{answer, json as respond, of_store};
use crate::shared::Jobs;

/// Jobs of a page, unless the client says.
const PAGE: u64 = 20;
/// The most jobs of a page.
const MOST_PAGE: u64 = 100;
/// The most jobs that one request queues again.
const MOST_RETRIED: usize = 1_000;

/// `GET /v1/jobs`.
pub(crate) async fn list(State(jobs): State<Arc<Jobs>>, head: Parts) -> Response {
    let answered = async {
        let params = Params::of(&head.uri)?;
        let limit = params.number("limit", 1..=MOST_PAGE)?.unwrap_or(PAGE);
        let filter = JobFilter {
            key: Caller::of(&jobs, &head.extensions).filter(),
            status: params.word("status")?,
            dead: params.flag("dead", false)?,
            model: params.text("model"),
            lines: params.flag("lines", false)?,
            after: params.text("after"),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
        };
        let page = jobs.store.jobs(filter).await.map_err(of_store)?;
        let context = JobContext { base_url: &jobs.options.base_url, ..JobContext::default() };
        let objects = page.rows.iter().map(|job| job_object(job, &context)).collect();
        Ok(respond(&List::new(objects, page.more, |job| job.id)))
    };
    answer(answered.await)
}

/// `GET /v1/jobs/stats`.
pub(crate) async fn stats(State(jobs): State<Arc<Jobs>>) -> Response {
    let answered = async {
        let now = jobs.now();
        let stats = jobs.store.stats(now).await.map_err(of_store)?;
        let queued = count(&stats, JobStatus::Queued);
        let drained = jobs.executor.expected_seconds(queued, None).filter(|_| queued > 0);
        Ok(respond(&object(&stats, drained, now)))
    };
    answer(answered.await)
}

fn count(stats: &Stats, status: JobStatus) -> u64 {
    stats.rows.iter().filter(|row| row.status == status).map(|row| row.jobs).sum()
}

fn object(stats: &Stats, drained_in: Option<f64>, now: Millis) -> Value {
    let age = |since: Millis| (now - since).max(0) as f64 / 1e3;
    let rows = stats.rows.iter().map(|row| {
        json!({"status": row.status, "priority": row.class, "jobs": row.jobs,
            "oldest_queued_seconds": row.oldest.map(age)})
    });
    let oldest = stats.rows.iter().filter_map(|row| row.oldest).min();
    let batches = stats.batches.iter().map(|(status, batches)| {
        // Statuses are words.
        let name = serde_json::to_value(status).ok().and_then(|name| name.as_str().map(str::to_owned));
        (name.unwrap_or_default(), Value::from(*batches))
    });
    json!({
        "object": "job.stats",
        "jobs": rows.collect::<Vec<_>>(),
        "queued": count(stats, JobStatus::Queued),
        "running": count(stats, JobStatus::Running) + count(stats, JobStatus::Cancelling),
        "dead": stats.dead,
        "oldest_queued_seconds": oldest.map(age),
        "drained_in_seconds": drained_in,
        "batches": batches.collect::<Map<_, _>>(),
        "store_bytes": {"tables": stats.table_bytes, "files": stats.blob_bytes},
    })
}

/// `POST /v1/jobs/retry`.
pub(crate) async fn retry(State(jobs): State<Arc<Jobs>>, request: Request) -> Response {
    let answered = async {
        let caller = Caller::of(&jobs, request.extensions());
        let fields = Fields::read(&optional_body(&jobs, request).await?)?;
        let filter = filter(&caller, fields.object("filter")?)?;
        let (retried, more) = retry_all(&jobs, &caller, filter).await?;
        Ok(respond(&json!({"retried": retried, "has_more": more})))
    };
    answer(answered.await)
}

/// Which jobs are queued again: dead ones if nothing is said.
fn filter(caller: &Caller, fields: Option<Fields>) -> Result<JobFilter, Fault> {
    let mut filter = JobFilter { key: caller.filter(), limit: 100, ..JobFilter::default() };
    let Some(fields) = fields else { return Ok(JobFilter { dead: true, ..filter }) };
    filter.status = fields.get("status", "failed, expired or cancelled")?;
    let ended = [JobStatus::Failed, JobStatus::Expired, JobStatus::Cancelled];
    if let Some(status) = filter.status.filter(|status| !ended.contains(status)) {
        let message =
            format!("filter.status is {status:?}; only failed, expired and cancelled jobs are queued again");
        return Err(Fault::field("filter.status", message));
    }
    filter.dead = fields.get("dead", "true or false")?.unwrap_or(filter.status.is_none());
    filter.model = fields.text("model")?;
    if filter.status.is_none() && !filter.dead {
        return Err(Fault::field("filter", "filter must have a status, or dead: true"));
    }
    Ok(filter)
}

async fn retry_all(jobs: &Jobs, caller: &Caller, mut filter: JobFilter) -> Result<(usize, bool), Fault> {
    let mut retried = 0;
    loop {
        let page = jobs.store.jobs(filter.clone()).await.map_err(of_store)?;
        filter.after = page.rows.last().map(|job| job.id.clone());
        for job in &page.rows {
            retried += usize::from(retry_one(jobs, caller, job).await?);
        }
        if !page.more || retried >= MOST_RETRIED {
            return Ok((retried, page.more));
        }
    }
}

/// Queues a job again. False if it was changed meanwhile.
async fn retry_one(jobs: &Jobs, caller: &Caller, job: &Job) -> Result<bool, Fault> {
    let now = jobs.now();
    let deadline = now.saturating_add(jobs.options.deadline);
    match jobs.store.retry(&job.id, caller.scope(), Some(deadline), now).await {
        Ok(job) => {
            jobs.tell(&job.id);
            Ok(true)
        }
        Err(StoreError::Conflict(_) | StoreError::NotFound(_) | StoreError::Gone(_)) => Ok(false),
        Err(error) => Err(of_store(error)),
    }
}
