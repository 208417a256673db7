//! What workers write of the jobs that they hold, and what becomes of jobs whose worker is gone.

use super::jobs::conflict;
use super::parts::Stored;
use super::work::Work;
use crate::error::StoreError;
use crate::rows::{CHECKPOINT, JOB, RESULT, read_job};
use crate::sql::{Sql, skip_locked, values};
use crate::types::{Finish, Finished, Renewal, Renewed};
use jobs::{Change, Job, Millis, Refused, Success};

/// Jobs of one transaction that looks after leases or deadlines.
pub(crate) const CHUNK: i64 = 500;

/// Renews leases.
pub(crate) async fn renew(
    sql: &mut dyn Sql,
    renewals: &[(Renewal, Option<Stored>)],
    now: Millis,
) -> Result<Vec<Renewed>, StoreError> {
    let mut order: Vec<usize> = (0..renewals.len()).collect();
    order.sort_by(|a, b| renewals[*a].0.id.cmp(&renewals[*b].0.id));
    let mut answers = vec![Renewed::Lost; renewals.len()];
    let mut work = Work::new(sql, now);
    for at in order {
        let (renewal, checkpoint) = &renewals[at];
        answers[at] = renew_one(&mut work, renewal, checkpoint.as_ref()).await?;
    }
    work.finish().await?;
    Ok(answers)
}

async fn renew_one(
    work: &mut Work<'_>,
    renewal: &Renewal,
    checkpoint: Option<&Stored>,
) -> Result<Renewed, StoreError> {
    let Some(mut job) = work.lock_job(&renewal.id).await? else { return Ok(Renewed::Lost) };
    let before = job.status;
    match job.renew(renewal.epoch, renewal.lease_until, renewal.progress.clone()) {
        Ok(change) => {
            work.save_job(before, &job, change).await?;
            if let Some(checkpoint) = checkpoint {
                work.replace_part(&job.id, CHECKPOINT, checkpoint).await?;
            }
            Ok(Renewed::Kept)
        }
        Err(Refused::Cancelling) => Ok(Renewed::Cancel),
        Err(_) => Ok(Renewed::Lost),
    }
}

/// The bytes that come with the end of an attempt, ready to be kept.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) finish: Finish,
    /// The result or the checkpoint.
    pub(crate) bytes: Option<Stored>,
    pub(crate) sha256: String,
    pub(crate) size: u64,
}

/// Ends an attempt.
pub(crate) async fn finish(
    sql: &mut dyn Sql,
    id: &str,
    epoch: u64,
    ending: &Ending,
    now: Millis,
) -> Result<Finished, StoreError> {
    let mut work = Work::new(sql, now);
    let Some(mut job) = work.lock_job(id).await? else { return Ok(Finished::Fenced) };
    let before = job.status;
    let change = match end(&mut job, epoch, ending, now) {
        Ok(change) => change,
        Err(Refused::Fenced) => return Ok(Finished::Fenced),
        Err(refused) => return Err(conflict(id, refused)),
    };
    let part = match (change, &ending.finish) {
        (Change::Succeeded, _) | (Change::Failed, Finish::Failed { .. }) => Some(RESULT),
        (Change::Queued, _) => Some(CHECKPOINT),
        _ => None,
    };
    if let (Some(part), Some(bytes)) = (part, &ending.bytes) {
        work.replace_part(id, part, bytes).await?;
    }
    work.save_job(before, &job, change).await?;
    work.finish().await?;
    Ok(Finished::Done(Box::new(job)))
}

fn end(job: &mut Job, epoch: u64, ending: &Ending, now: Millis) -> Result<Change, Refused> {
    match &ending.finish {
        Finish::Succeeded { status_code, usage, cost_micros, .. } => {
            let success = Success {
                status_code: *status_code,
                result_sha256: ending.sha256.clone(),
                result_bytes: ending.size,
                usage: *usage,
                cost_micros: *cost_micros,
            };
            job.succeed(epoch, success, now)
        }
        Finish::Failed { status_code, error, .. } => {
            let change = job.fail(epoch, *status_code, error.clone(), now)?;
            if change == Change::Failed {
                job.result_sha256 = Some(ending.sha256.clone());
                job.result_bytes = Some(ending.size);
            }
            Ok(change)
        }
        Finish::Retry { error, status_code, random } => {
            job.retry_later(epoch, error.clone(), *status_code, *random, now)
        }
        Finish::Cancelled { usage } => job.confirm_cancel(epoch, *usage, now),
        Finish::Released { .. } => job.release(epoch, now),
    }
}

/// Whose jobs are taken from their workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Those whose lease has ended.
    Overdue,
    /// All: no worker lives.
    All,
}

/// Takes jobs from their workers, at most [`CHUNK`]. Returns how many, and which have ended by it.
pub(crate) async fn lose(
    sql: &mut dyn Sql,
    lost: Lost,
    now: Millis,
) -> Result<(u64, Vec<String>), StoreError> {
    let lock = skip_locked(sql);
    let before = if lost == Lost::All { i64::MAX } else { now };
    let select = format!(
        "SELECT {JOB} FROM job WHERE lease_until IS NOT NULL AND lease_until < $1
         ORDER BY lease_until LIMIT $2{lock}"
    );
    let rows = sql.query(&select, values![before, CHUNK]).await?;
    let mut work = Work::new(sql, now);
    let mut count = 0;
    for row in &rows {
        let mut job = read_job(row)?;
        let status = job.status;
        let change = if lost == Lost::All { job.take_back(now) } else { job.lose_lease(now) };
        if let Ok(change) = change {
            work.save_job(status, &job, change).await?;
            count += 1;
        }
    }
    Ok((count, work.finish().await?))
}

/// Expires jobs whose deadline has passed, at most [`CHUNK`]; lines expire with their batch.
pub(crate) async fn expire(sql: &mut dyn Sql, now: Millis) -> Result<Vec<String>, StoreError> {
    let lock = skip_locked(sql);
    let select = format!(
        "SELECT {JOB} FROM job WHERE deadline IS NOT NULL AND batch IS NULL AND deadline <= $1
         ORDER BY deadline LIMIT $2{lock}"
    );
    let rows = sql.query(&select, values![now, CHUNK]).await?;
    let mut work = Work::new(sql, now);
    for row in &rows {
        let mut job = read_job(row)?;
        let before = job.status;
        if let Ok(change) = job.expire(now) {
            work.save_job(before, &job, change).await?;
        }
    }
    work.finish().await
}
