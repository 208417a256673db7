//! Batches: what happens to them as a whole. What follows for their many lines is noted in the column `todo` and done in
//! chunks ([`super::batch_lines`]), also after a crash.

use super::jobs::{List, missing};
use super::work::Work;
use crate::error::StoreError;
use crate::rows::{from_json, kind_word};
use crate::sql::{Row, Sql, values};
use crate::types::{BatchFilter, CancelOutcome, Page};
use jobs::batch::{Batch, BatchKind, FileError};
use jobs::{BatchChange, BatchRefused, Millis};

/// Batches that are told as due at once.
const DUE: i64 = 100;

const DAY: Millis = 24 * 3_600_000;
/// For how long the lines of a batch with files are kept after its end.
const KEEP_LINES: Millis = 7 * DAY;
/// For how long a batch is kept after its end.
const KEEP_BATCH: Millis = 30 * DAY;
/// For how long the results of Anthropic's batches are kept after their making.
const KEEP_RESULTS: Millis = 29 * DAY;

/// What is still to be done to the lines of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Todo {
    /// They may be claimed.
    Ready,
    /// Those that are open are cancelled.
    Cancel,
    /// Those that are open expire.
    Expire,
    /// They are deleted.
    Clear,
    /// They are deleted, and then the batch.
    Delete,
}

impl Todo {
    const ALL: [Todo; 5] = [Todo::Ready, Todo::Cancel, Todo::Expire, Todo::Clear, Todo::Delete];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Todo::Ready => "ready",
            Todo::Cancel => "cancel",
            Todo::Expire => "expire",
            Todo::Clear => "clear",
            Todo::Delete => "delete",
        }
    }

    pub(crate) fn of(word: &str) -> Option<Todo> {
        Todo::ALL.into_iter().find(|todo| todo.word() == word)
    }
}

/// A batch.
pub(crate) async fn get(sql: &mut dyn Sql, id: &str, key: Option<&str>) -> Result<Batch, StoreError> {
    let select = "SELECT json FROM job_batch WHERE id = $1 AND (todo IS NULL OR todo <> 'delete')";
    let rows = sql.query(select, values![id]).await?;
    let batch: Option<Batch> = rows.first().map(|row| from_json(row.text(0)?)).transpose()?;
    match batch.filter(|batch| key.is_none_or(|key| key == batch.key)) {
        Some(batch) => Ok(batch),
        None => Err(missing(sql, id, key, "batch").await?),
    }
}

fn read(row: &Row) -> Result<Batch, StoreError> {
    from_json(row.text(0)?)
}

/// Batches, newest first.
pub(crate) async fn list(sql: &mut dyn Sql, filter: &BatchFilter) -> Result<Page<Batch>, StoreError> {
    let mut list = List::new("job_batch", "json");
    list.also("(todo IS NULL OR todo <> 'delete')");
    if let Some(key) = &filter.key {
        list.only("key = ", key);
    }
    if let Some(kind) = filter.kind {
        list.only("kind = ", kind_word(kind));
    }
    if let Some(after) = &filter.after {
        list.beyond("<", after);
    }
    let Some(before) = &filter.before else { return list.page(sql, "DESC", filter.limit, read).await };
    list.beyond(">", before);
    let mut page = list.page(sql, "ASC", filter.limit, read).await?;
    page.rows.reverse();
    Ok(page)
}

/// Batches with something to do.
pub(crate) async fn due(sql: &mut dyn Sql, now: Millis) -> Result<Vec<Batch>, StoreError> {
    let select = "SELECT json FROM job_batch WHERE status IN ('validating', 'finalizing', 'cancelling')
            OR (status = 'in_progress' AND (settled = 1 OR expires_at <= $1))
        ORDER BY created_at LIMIT $2";
    sql.query(select, values![now, DUE]).await?.iter().map(read).collect()
}

/// A batch of a key that is to be changed.
async fn lock(work: &mut Work<'_>, id: &str, key: Option<&str>) -> Result<Batch, StoreError> {
    let batch = work.lock_batch(id).await?;
    match batch.filter(|batch| key.is_none_or(|key| key == batch.key)) {
        Some(batch) => Ok(batch),
        None => Err(missing(work.sql, id, key, "batch").await?),
    }
}

pub(crate) fn conflict(id: &str, refused: BatchRefused) -> StoreError {
    StoreError::Conflict(format!("{id}: {refused}"))
}

/// Notes what is to be done to the lines of a batch.
async fn set_todo(work: &mut Work<'_>, id: &str, todo: Todo) -> Result<(), StoreError> {
    work.sql.execute("UPDATE job_batch SET todo = $2 WHERE id = $1", values![id, todo.word()]).await?;
    Ok(())
}

/// Tells that a batch has ended, and notes until when it is kept.
async fn ended(work: &mut Work<'_>, batch: &Batch, change: BatchChange) -> Result<(), StoreError> {
    let now = work.now;
    let (clear, delete) = match batch.kind {
        BatchKind::OpenAi => (now.saturating_add(KEEP_LINES), now.saturating_add(KEEP_BATCH)),
        BatchKind::Anthropic => {
            let clear = batch.created_at.saturating_add(KEEP_RESULTS).max(now);
            (clear, clear.saturating_add(KEEP_BATCH))
        }
    };
    let update = "UPDATE job_batch SET clear_at = $2, delete_at = $3 WHERE id = $1";
    work.sql.execute(update, values![&batch.id, clear, delete]).await?;
    match change.webhook_event(batch.kind) {
        Some(event) => work.tell(event, &batch.id, &batch.key, batch.webhook.as_deref(), 0).await,
        None => Ok(()),
    }
}

/// All lines are there: they may be claimed.
pub(crate) async fn begin(sql: &mut dyn Sql, id: &str, now: Millis) -> Result<Batch, StoreError> {
    let mut work = Work::new(sql, now);
    let mut batch = lock(&mut work, id, None).await?;
    batch.begin(now).map_err(|refused| conflict(id, refused))?;
    work.save_batch(&batch).await?;
    set_todo(&mut work, id, Todo::Ready).await?;
    work.finish().await?;
    Ok(batch)
}

/// The input is at fault.
pub(crate) async fn fail(
    sql: &mut dyn Sql,
    id: &str,
    errors: &[FileError],
    now: Millis,
) -> Result<Batch, StoreError> {
    let mut work = Work::new(sql, now);
    let mut batch = lock(&mut work, id, None).await?;
    let change = batch.fail(errors.to_vec(), now).map_err(|refused| conflict(id, refused))?;
    work.save_batch(&batch).await?;
    set_todo(&mut work, id, Todo::Clear).await?;
    ended(&mut work, &batch, change).await?;
    work.finish().await?;
    Ok(batch)
}

/// Cancels a batch. Its lines follow.
pub(crate) async fn cancel(
    sql: &mut dyn Sql,
    id: &str,
    key: Option<&str>,
    now: Millis,
) -> Result<CancelOutcome, StoreError> {
    let mut work = Work::new(sql, now);
    let mut batch = lock(&mut work, id, key).await?;
    match batch.cancel(now) {
        Ok(_) => {
            work.save_batch(&batch).await?;
            set_todo(&mut work, id, Todo::Cancel).await?;
            work.finish().await?;
            Ok(CancelOutcome::Cancelling(Box::new(batch)))
        }
        Err(BatchRefused::Cancelling) => Ok(CancelOutcome::Cancelling(Box::new(batch))),
        Err(_) => Ok(CancelOutcome::Ended(Box::new(batch))),
    }
}

/// The batch's time is over. Its lines follow.
pub(crate) async fn expire(sql: &mut dyn Sql, id: &str, now: Millis) -> Result<Batch, StoreError> {
    let mut work = Work::new(sql, now);
    let mut batch = lock(&mut work, id, None).await?;
    match batch.expire(now) {
        Ok(_) => {
            work.save_batch(&batch).await?;
            set_todo(&mut work, id, Todo::Expire).await?;
            work.finish().await?;
        }
        Err(BatchRefused::Expiring) => {}
        Err(refused) => return Err(conflict(id, refused)),
    }
    Ok(batch)
}

/// Chooses the ids of the files, once.
pub(crate) async fn finalize(
    sql: &mut dyn Sql,
    id: &str,
    output: Option<&String>,
    errors: Option<&String>,
    now: Millis,
) -> Result<Batch, StoreError> {
    let mut work = Work::new(sql, now);
    let mut batch = lock(&mut work, id, None).await?;
    match batch.finalize(output.cloned(), errors.cloned(), now) {
        Ok(_) => work.save_batch(&batch).await?,
        Err(BatchRefused::Finalized) => {}
        Err(refused) => return Err(conflict(id, refused)),
    }
    work.finish().await?;
    Ok(batch)
}

/// The files are written: the batch ends.
pub(crate) async fn end(sql: &mut dyn Sql, id: &str, now: Millis) -> Result<Batch, StoreError> {
    let mut work = Work::new(sql, now);
    let mut batch = lock(&mut work, id, None).await?;
    match batch.end(now) {
        Ok(change) => {
            work.save_batch(&batch).await?;
            ended(&mut work, &batch, change).await?;
        }
        Err(BatchRefused::Ended) if batch.status.is_terminal() => {}
        Err(refused) => return Err(conflict(id, refused)),
    }
    work.finish().await?;
    Ok(batch)
}

/// Deletes an ended batch. Its lines follow, and then its row.
pub(crate) async fn delete(
    sql: &mut dyn Sql,
    id: &str,
    key: Option<&str>,
    now: Millis,
) -> Result<(), StoreError> {
    let mut work = Work::new(sql, now);
    let batch = lock(&mut work, id, key).await?;
    if !batch.status.is_terminal() {
        return Err(conflict(id, BatchRefused::NotEnded));
    }
    set_todo(&mut work, id, Todo::Delete).await?;
    work.finish().await?;
    Ok(())
}

/// Notes of which ended batches the lines or the rows are no longer kept. Returns how many batches are deleted.
pub(crate) async fn retire(sql: &mut dyn Sql, now: Millis) -> Result<u64, StoreError> {
    let mut work = Work::new(sql, now);
    let select = "SELECT id FROM job_batch WHERE clear_at IS NOT NULL AND clear_at <= $1 AND todo IS NULL
        ORDER BY id LIMIT $2";
    for row in work.sql.query(select, values![now, DUE]).await? {
        let id = row.text(0)?.to_owned();
        let Some(mut batch) = work.lock_batch(&id).await? else { continue };
        if batch.kind == BatchKind::Anthropic && batch.archive(now).is_ok() {
            work.save_batch(&batch).await?;
        }
        set_todo(&mut work, &id, Todo::Clear).await?;
        work.sql.execute("UPDATE job_batch SET clear_at = NULL WHERE id = $1", values![&id]).await?;
    }
    let select = "SELECT id, key FROM job_batch WHERE delete_at IS NOT NULL AND delete_at <= $1
            AND (todo IS NULL OR todo <> 'delete') ORDER BY id LIMIT $2";
    let mut count = 0;
    for row in work.sql.query(select, values![now, DUE]).await? {
        set_todo(&mut work, row.text(0)?, Todo::Delete).await?;
        super::jobs::bury(work.sql, row.text(0)?, row.text(1)?, "batch", now).await?;
        count += 1;
    }
    work.finish().await?;
    Ok(count)
}
