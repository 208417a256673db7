//! Files. Where their bytes lie is the database's: outside of SQLite, in chunks of rows in PostgreSQL.

use super::jobs::{List, bury, missing};
#[cfg(feature = "postgres")]
use super::parts::ROW_BYTES;
use super::tally;
use super::work::Work;
use crate::error::StoreError;
use crate::rows::{PUT_FILE, file_values, from_json, purpose_word};
use crate::sql::{Row, Sql, for_update, values};
use crate::types::{FileFilter, Page, StoreLimits};
use jobs::{File, Millis};

/// Files that one sweep deletes.
const EXPIRED: i64 = 100;

/// A file.
pub(crate) async fn get(sql: &mut dyn Sql, id: &str, key: Option<&str>) -> Result<File, StoreError> {
    let rows = sql.query("SELECT json FROM job_file WHERE id = $1", values![id]).await?;
    let file: Option<File> = rows.first().map(read).transpose()?;
    match file.filter(|file| key.is_none_or(|key| key == file.key)) {
        Some(file) => Ok(file),
        None => Err(missing(sql, id, key, "file").await?),
    }
}

fn read(row: &Row) -> Result<File, StoreError> {
    from_json(row.text(0)?)
}

/// Files that clients see.
pub(crate) async fn list(sql: &mut dyn Sql, filter: &FileFilter) -> Result<Page<File>, StoreError> {
    let mut list = List::new("job_file", "json");
    list.also("hidden = 0");
    if let Some(key) = &filter.key {
        list.only("key = ", key);
    }
    if let Some(purpose) = filter.purpose {
        list.only("purpose = ", purpose_word(purpose));
    }
    let (order, side) = if filter.ascending { ("ASC", ">") } else { ("DESC", "<") };
    if let Some(after) = &filter.after {
        list.beyond(side, after);
    }
    list.page(sql, order, filter.limit, read).await
}

/// Refuses bytes beyond the bound of the store.
pub(crate) async fn check_space(
    sql: &mut dyn Sql,
    more: u64,
    limits: &StoreLimits,
) -> Result<(), StoreError> {
    tally::check(sql, (tally::BYTES, ""), more, ("bytes of the store", limits.bytes)).await
}

/// Makes a file visible whose bytes lie at a place outside the database.
pub(crate) async fn seal(
    sql: &mut dyn Sql,
    file: &File,
    place: Option<&str>,
    limits: &StoreLimits,
    now: Millis,
) -> Result<(), StoreError> {
    check_space(sql, file.bytes, limits).await?;
    let mut work = Work::new(sql, now);
    let lock = for_update(work.sql);
    let select = format!("SELECT size, place FROM job_file WHERE id = $1{lock}");
    if let Some(row) = work.sql.query(&select, values![&file.id]).await?.first() {
        work.count_bytes(row.count(0)?, true, -1);
        if let Some(before) = row.text_or_none(1)?
            && Some(before) != place
        {
            work.drop_place(before).await?;
        }
    }
    work.sql.execute(PUT_FILE, file_values(file, place)?).await?;
    work.count_bytes(file.bytes, true, 1);
    work.finish().await?;
    Ok(())
}

/// Where the bytes of a file lie, and how many they are.
pub(crate) async fn place(sql: &mut dyn Sql, id: &str) -> Result<(Option<String>, u64), StoreError> {
    let rows = sql.query("SELECT place, size FROM job_file WHERE id = $1", values![id]).await?;
    match rows.first() {
        Some(row) => Ok((row.text_or_none(0)?.map(str::to_owned), row.count(1)?)),
        None => Err(missing(sql, id, None, "file").await?),
    }
}

/// Whether a batch that has not ended reads a file, as the end of a query.
const IN_USE: &str = "SELECT 1 FROM job_batch WHERE input_file = job_file.id
    AND status IN ('validating', 'in_progress', 'finalizing', 'cancelling')";

/// Deletes a file that no open batch reads.
pub(crate) async fn delete(
    sql: &mut dyn Sql,
    id: &str,
    key: Option<&str>,
    now: Millis,
) -> Result<(), StoreError> {
    get(sql, id, key).await?;
    let select = format!("SELECT 1 FROM job_file WHERE id = $1 AND EXISTS ({IN_USE})");
    if !sql.query(&select, values![id]).await?.is_empty() {
        return Err(StoreError::Conflict(format!("a batch that has not ended reads the file {id}")));
    }
    let mut work = Work::new(sql, now);
    drop_file(&mut work, id).await?;
    work.finish().await?;
    Ok(())
}

/// Deletes files whose time is over. Returns how many.
pub(crate) async fn expire(sql: &mut dyn Sql, now: Millis) -> Result<u64, StoreError> {
    let select = format!(
        "SELECT id, key FROM job_file WHERE expires_at IS NOT NULL AND expires_at <= $1 AND NOT EXISTS ({IN_USE})
         ORDER BY id LIMIT $2"
    );
    let mut work = Work::new(sql, now);
    let rows = work.sql.query(&select, values![now, EXPIRED]).await?;
    for row in &rows {
        drop_file(&mut work, row.text(0)?).await?;
        bury(work.sql, row.text(0)?, row.text(1)?, "file", now).await?;
    }
    work.finish().await?;
    Ok(rows.len() as u64)
}

/// Deletes the rows of a file.
pub(crate) async fn drop_file(work: &mut Work<'_>, id: &str) -> Result<(), StoreError> {
    let delete = "DELETE FROM job_file WHERE id = $1 RETURNING size, place";
    for row in work.sql.query(delete, values![id]).await? {
        work.count_bytes(row.count(0)?, true, -1);
        if let Some(place) = row.text_or_none(1)? {
            work.drop_place(place).await?;
        }
    }
    work.sql.execute("DELETE FROM job_chunk WHERE file = $1", values![id]).await?;
    Ok(())
}

/// Writes bytes of a file that is not sealed into rows, from `offset` on; what was there after it is forgotten.
#[cfg(feature = "postgres")]
pub(crate) async fn write_rows(
    sql: &mut dyn Sql,
    id: &str,
    offset: u64,
    bytes: &[u8],
    at: Millis,
) -> Result<(), StoreError> {
    let delete = "DELETE FROM job_chunk WHERE file = $1 AND sealed = 0 AND start >= $2";
    sql.execute(delete, values![id, offset]).await?;
    let last = "SELECT start, size FROM job_chunk WHERE file = $1 AND sealed = 0 ORDER BY start DESC LIMIT 1";
    let mut end = 0;
    if let Some(row) = sql.query(last, values![id]).await?.first() {
        let start = row.count(0)?;
        end = start + row.count(1)?;
        if end > offset {
            let cut = "UPDATE job_chunk SET bytes = substr(bytes, 1, CAST($3 AS INTEGER)), size = $4
                WHERE file = $1 AND sealed = 0 AND start = $2";
            let keep = offset - start;
            sql.execute(cut, values![id, start, keep, keep]).await?;
            end = offset;
        }
    }
    if end != offset {
        return Err(StoreError::Conflict(format!("the file {id} has {end} bytes, not {offset}")));
    }
    let mut start = offset;
    for piece in bytes.chunks(ROW_BYTES) {
        let insert =
            "INSERT INTO job_chunk (file, sealed, start, size, at, bytes) VALUES ($1, 0, $2, $3, $4, $5)";
        sql.execute(insert, values![id, start, piece.len() as u64, at, piece]).await?;
        start += piece.len() as u64;
    }
    Ok(())
}

/// Makes a file visible whose bytes lie in rows.
#[cfg(feature = "postgres")]
pub(crate) async fn seal_rows(
    sql: &mut dyn Sql,
    file: &File,
    limits: &StoreLimits,
    now: Millis,
) -> Result<(), StoreError> {
    let sum = "SELECT CAST(coalesce(sum(size), 0) AS BIGINT) FROM job_chunk WHERE file = $1 AND sealed = 0";
    let rows = sql.query(sum, values![&file.id]).await?;
    let written = rows.first().map_or(Ok(0), |row| row.count(0))?;
    if written != file.bytes {
        return Err(wrong_length(file, written));
    }
    sql.execute("DELETE FROM job_chunk WHERE file = $1 AND sealed = 1", values![&file.id]).await?;
    sql.execute("UPDATE job_chunk SET sealed = 1 WHERE file = $1 AND sealed = 0", values![&file.id]).await?;
    seal(sql, file, None, limits, now).await
}

/// Bytes of a sealed file that lie in rows.
#[cfg(feature = "postgres")]
pub(crate) async fn read_rows(
    sql: &mut dyn Sql,
    id: &str,
    offset: u64,
    most: usize,
) -> Result<Vec<u8>, StoreError> {
    let end = offset.saturating_add(most as u64);
    let select = "SELECT start, bytes FROM job_chunk WHERE file = $1 AND sealed = 1 AND start < $3
        AND start + size > $2 ORDER BY start";
    let mut read = Vec::new();
    for row in sql.query(select, values![id, offset, end]).await? {
        let start = row.count(0)?;
        let bytes = row.bytes_or_none(1)?.unwrap_or_default();
        let skip = usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX);
        read.extend_from_slice(bytes.get(skip..).unwrap_or_default());
    }
    read.truncate(most);
    Ok(read)
}

/// The file is not what was written.
pub(crate) fn wrong_length(file: &File, written: u64) -> StoreError {
    StoreError::Conflict(format!(
        "{} bytes of the file {} were written, not {}",
        written, file.id, file.bytes
    ))
}
