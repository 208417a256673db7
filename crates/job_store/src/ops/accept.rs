//! Jobs and batches that are offered.

use super::parts::Stored;
use super::tally;
use super::work::Work;
use crate::error::StoreError;
use crate::rows::{BODY, JOB, from_json, read_job};
use crate::sql::{Sql, for_update, values};
use crate::types::{Accepted, IdempotencyKey, StoreLimits};
use jobs::batch::Batch;
use jobs::{Job, Millis};

/// Keeps a job, unless the same request was kept before.
pub(crate) async fn accept(
    sql: &mut dyn Sql,
    job: &Job,
    body: &Stored,
    key: Option<&IdempotencyKey>,
    limits: &StoreLimits,
    now: Millis,
) -> Result<Accepted, StoreError> {
    if let Some(key) = key
        && let Some(id) = earlier(sql, key, &job.id, now).await?
    {
        let select = format!("SELECT {JOB} FROM job WHERE id = $1");
        let rows = sql.query(&select, values![&id]).await?;
        if let Some(row) = rows.first() {
            return Ok(Accepted::Before(read_job(row)?));
        }
        take_over(sql, key, &job.id).await?;
    }
    check(sql, job, size(body), limits).await?;
    let mut job = job.clone();
    job.sequence = job.sequence.max(1);
    let mut work = Work::new(sql, now);
    work.insert_job(&job).await?;
    work.put_part(&job.id, BODY, body).await?;
    work.finish().await?;
    Ok(Accepted::New(job))
}

/// Refuses a job beyond the bounds of the store.
pub(crate) async fn check(
    sql: &mut dyn Sql,
    job: &Job,
    size: u64,
    limits: &StoreLimits,
) -> Result<(), StoreError> {
    tally::check(sql, (tally::JOBS, &job.key), 1, ("open jobs of this key", limits.open_jobs_of_key)).await?;
    tally::check(sql, (tally::ALL_JOBS, ""), 1, ("open jobs", limits.open_jobs)).await?;
    tally::check(sql, (tally::BYTES, ""), size, ("bytes of the store", limits.bytes)).await
}

/// Keeps a batch, unless the same request was kept before.
pub(crate) async fn create_batch(
    sql: &mut dyn Sql,
    batch: &Batch,
    key: Option<&IdempotencyKey>,
    now: Millis,
) -> Result<Batch, StoreError> {
    if let Some(key) = key
        && let Some(id) = earlier(sql, key, &batch.id, now).await?
    {
        let rows = sql.query("SELECT json FROM job_batch WHERE id = $1", values![&id]).await?;
        if let Some(row) = rows.first() {
            return from_json(row.text(0)?);
        }
        take_over(sql, key, &batch.id).await?;
    }
    let file = "SELECT 1 FROM job_file WHERE id = $1 AND key = $2";
    if sql.query(file, values![&batch.input_file, &batch.key]).await?.is_empty() {
        return Err(StoreError::NotFound("file"));
    }
    let mut work = Work::new(sql, now);
    if work.lock_batch(&batch.id).await?.is_some() {
        return Err(StoreError::Conflict(format!("there is a batch {} already", batch.id)));
    }
    work.save_batch(batch).await?;
    work.sql.wake();
    work.finish().await?;
    Ok(batch.clone())
}

pub(crate) fn size(stored: &Stored) -> u64 {
    match stored {
        Stored::Rows(bytes) => bytes.len() as u64,
        Stored::Outside { size, .. } => *size,
    }
}

/// What was made by the same request before; otherwise the key is now `object`'s.
async fn earlier(
    sql: &mut dyn Sql,
    key: &IdempotencyKey,
    object: &str,
    now: Millis,
) -> Result<Option<String>, StoreError> {
    // Of two at once, one waits here for the other.
    let insert = "INSERT INTO job_request (key, route, value, fingerprint, object, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (key, route, value) DO NOTHING";
    let row = values![&key.key, &key.route, &key.value, &key.fingerprint, object, key.expires_at];
    if sql.execute(insert, row).await? == 1 {
        return Ok(None);
    }
    let lock = for_update(sql);
    let select = format!(
        "SELECT fingerprint, object, expires_at FROM job_request WHERE key = $1 AND route = $2 AND value = $3{lock}"
    );
    let rows = sql.query(&select, values![&key.key, &key.route, &key.value]).await?;
    let Some(row) = rows.first() else {
        return Err(StoreError::Unavailable("the idempotency key was forgotten meanwhile".to_owned()));
    };
    if row.int(2)? <= now {
        take_over(sql, key, object).await?;
        return Ok(None);
    }
    if row.text(0)? != key.fingerprint {
        return Err(StoreError::OtherRequest);
    }
    Ok(Some(row.text(1)?.to_owned()))
}

/// Gives an idempotency key whose object is gone to another.
async fn take_over(sql: &mut dyn Sql, key: &IdempotencyKey, object: &str) -> Result<(), StoreError> {
    let update = "UPDATE job_request SET fingerprint = $4, object = $5, expires_at = $6
        WHERE key = $1 AND route = $2 AND value = $3";
    let row = values![&key.key, &key.route, &key.value, &key.fingerprint, object, key.expires_at];
    sql.execute(update, row).await?;
    Ok(())
}
