//! The lines of batches, in chunks.

use super::accept::size;
use super::batches::{Todo, conflict};
use super::files::drop_file;
use super::leases::CHUNK;
use super::parts::{Loaded, Stored, read_part};
use super::tally;
use super::work::Work;
use crate::error::StoreError;
use crate::rows::{BODY, JOB, RESULT, from_json, read_job};
use crate::sql::{Sql, for_update, values};
use crate::types::StoreLimits;
use jobs::batch::Batch;
use jobs::{Job, Millis};

/// Lines of one answer at most.
pub(crate) const LINES: usize = 1_000;

/// Lines whose ranks one statement sets.
const RANKS: usize = 500;

/// Keeps a chunk of lines of a batch that is validated.
pub(crate) async fn add(
    sql: &mut dyn Sql,
    id: &str,
    from: u64,
    lines: &[(Job, Stored)],
    limits: &StoreLimits,
    now: Millis,
) -> Result<Batch, StoreError> {
    let mut work = Work::new(sql, now);
    let Some(mut batch) = work.lock_batch(id).await? else { return Err(StoreError::NotFound("batch")) };
    let count = lines.len() as u64;
    batch.add_lines(from, count).map_err(|refused| conflict(id, refused))?;
    tally::check(work.sql, (tally::LINES, ""), count, ("open lines of batches", limits.open_lines)).await?;
    let bytes = lines.iter().map(|(_, body)| size(body)).sum();
    tally::check(work.sql, (tally::BYTES, ""), bytes, ("bytes of the store", limits.bytes)).await?;
    for (number, (job, body)) in (from..).zip(lines) {
        let mut job = job.clone();
        job.batch = Some(id.to_owned());
        job.line = Some(number);
        // So that it can expire with its batch.
        job.deadline = Some(job.deadline.map_or(batch.expires_at, |end| end.min(batch.expires_at)));
        job.sequence = job.sequence.max(1);
        work.insert_job(&job).await?;
        work.put_part(&job.id, BODY, body).await?;
    }
    work.save_batch(&batch).await?;
    work.finish().await?;
    Ok(batch)
}

/// Sets the places of lines in the order in which they are run; a chunk of them.
pub(crate) async fn rank(sql: &mut dyn Sql, id: &str, ranks: &[(u64, i64)]) -> Result<(), StoreError> {
    for chunk in ranks.chunks(RANKS) {
        let list: Vec<String> = chunk.iter().map(|(line, rank)| format!("({line}, {rank})")).collect();
        let update = format!(
            "UPDATE job SET prefix_rank = v.column2 FROM (VALUES {}) AS v
             WHERE job.batch = $1 AND job.line = v.column1",
            list.join(", ")
        );
        sql.execute_once(&update, values![id]).await?;
    }
    Ok(())
}

/// A line of an answer, and where its result is.
pub(crate) type FoundLine = (Job, Loaded);

/// Lines of a batch that have ended.
pub(crate) async fn list(
    sql: &mut dyn Sql,
    id: &str,
    from: u64,
    limit: usize,
    gapless: bool,
) -> Result<Vec<FoundLine>, StoreError> {
    let ended = if gapless { "" } else { "AND status IN ('succeeded', 'failed', 'cancelled', 'expired')" };
    let select =
        format!("SELECT {JOB} FROM job WHERE batch = $1 AND line >= $2 {ended} ORDER BY line LIMIT $3");
    let limit = limit.min(LINES) as i64;
    let rows = sql.query(&select, values![id, from, limit]).await?;
    let mut found = Vec::with_capacity(rows.len());
    for (number, row) in (from..).zip(&rows) {
        let job = read_job(row)?;
        if gapless && (!job.status.is_terminal() || job.line != Some(number)) {
            break;
        }
        let result = read_part(sql, &job.id, RESULT).await?;
        found.push((job, result));
    }
    Ok(found)
}

/// Batches whose lines are not yet as they should be.
pub(crate) async fn unfinished(sql: &mut dyn Sql) -> Result<Vec<String>, StoreError> {
    let rows = sql.query("SELECT id FROM job_batch WHERE todo IS NOT NULL ORDER BY id LIMIT 100", Vec::new());
    rows.await?.iter().map(|row| row.text(0).map(str::to_owned)).collect()
}

/// Does a chunk of what is to be done to the lines of a batch. Returns whether more is to be done, and the jobs that have
/// ended by it.
pub(crate) async fn step(
    sql: &mut dyn Sql,
    id: &str,
    now: Millis,
) -> Result<(bool, Vec<String>), StoreError> {
    let rows = sql.query("SELECT todo FROM job_batch WHERE id = $1", values![id]).await?;
    let Some(todo) = rows.first().map(|row| row.text_or_none(0)).transpose()?.flatten().and_then(Todo::of)
    else {
        return Ok((false, Vec::new()));
    };
    let mut work = Work::new(sql, now);
    let more = match todo {
        Todo::Ready => ready(&mut work, id).await?,
        Todo::Cancel | Todo::Expire => end_lines(&mut work, id, todo).await?,
        Todo::Clear | Todo::Delete => delete_lines(&mut work, id).await?,
    };
    if !more {
        // What was noted meanwhile stays.
        let done = "UPDATE job_batch SET todo = NULL WHERE id = $1 AND todo = $2";
        work.sql.execute(done, values![id, todo.word()]).await?;
        if todo == Todo::Delete
            && let Some(batch) = work.lock_batch(id).await?
        {
            delete_row(&mut work, &batch).await?;
        }
    }
    Ok((more, work.finish().await?))
}

async fn ready(work: &mut Work<'_>, id: &str) -> Result<bool, StoreError> {
    let update = "UPDATE job SET ready = 1 WHERE id IN
        (SELECT id FROM job WHERE batch = $1 AND ready = 0 ORDER BY line LIMIT $2)";
    let changed = work.sql.execute(update, values![id, CHUNK]).await?;
    work.sql.wake();
    Ok(changed == CHUNK.unsigned_abs())
}

/// Cancels or expires open lines.
async fn end_lines(work: &mut Work<'_>, id: &str, todo: Todo) -> Result<bool, StoreError> {
    let lock = for_update(work.sql);
    let select = format!(
        "SELECT {JOB} FROM job WHERE batch = $1 AND status IN ('queued', 'running') ORDER BY line LIMIT $2{lock}"
    );
    let rows = work.sql.query(&select, values![id, CHUNK]).await?;
    let mut changed = 0;
    for row in &rows {
        let mut job = read_job(row)?;
        let before = job.status;
        let change = if todo == Todo::Cancel { job.cancel(work.now) } else { job.expire(work.now) };
        if let Ok(change) = change {
            work.save_job(before, &job, change).await?;
            changed += 1;
        }
    }
    Ok(changed > 0 && rows.len() as i64 == CHUNK)
}

async fn delete_lines(work: &mut Work<'_>, id: &str) -> Result<bool, StoreError> {
    let lock = for_update(work.sql);
    let select = format!("SELECT {JOB} FROM job WHERE batch = $1 ORDER BY line LIMIT $2{lock}");
    let rows = work.sql.query(&select, values![id, CHUNK]).await?;
    for row in &rows {
        let job = read_job(row)?;
        if !job.status.is_terminal() {
            work.count(tally::LINES, "", -1);
        }
        super::jobs::drop_job(work, &job.id).await?;
    }
    Ok(rows.len() as i64 == CHUNK)
}

/// Deletes the row of a batch without lines, and the input that nobody else sees.
async fn delete_row(work: &mut Work<'_>, batch: &Batch) -> Result<(), StoreError> {
    let select = "SELECT json FROM job_file WHERE id = $1 AND hidden = 1";
    let rows = work.sql.query(select, values![&batch.input_file]).await?;
    if let Some(row) = rows.first() {
        let file: jobs::File = from_json(row.text(0)?)?;
        drop_file(work, &file.id).await?;
    }
    work.sql.execute("DELETE FROM job_batch WHERE id = $1", values![&batch.id]).await?;
    Ok(())
}
