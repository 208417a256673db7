//! What is deleted when its time is over.

use super::jobs::{bury, drop_job};
use super::leases::CHUNK;
use super::work::Work;
use crate::error::StoreError;
use crate::sql::{Sql, skip_locked, values};
use jobs::Millis;

/// Silence after which a worker's row is deleted.
const SILENCE: Millis = 3_600_000;

/// Rows of small tables that one sweep deletes.
const ROWS: i64 = 1_000;

/// Deletes ended jobs that need not be kept, at most [`CHUNK`]. Returns how many.
pub(crate) async fn retain(sql: &mut dyn Sql, now: Millis) -> Result<u64, StoreError> {
    let lock = skip_locked(sql);
    let select = format!(
        "SELECT id, key FROM job WHERE retain_until IS NOT NULL AND retain_until <= $1
         ORDER BY retain_until LIMIT $2{lock}"
    );
    let mut work = Work::new(sql, now);
    let rows = work.sql.query(&select, values![now, CHUNK]).await?;
    for row in &rows {
        drop_job(&mut work, row.text(0)?).await?;
        bury(work.sql, row.text(0)?, row.text(1)?, "job", now).await?;
    }
    work.finish().await?;
    Ok(rows.len() as u64)
}

/// Deletes rows of small tables whose time is over.
pub(crate) async fn small(sql: &mut dyn Sql, now: Millis) -> Result<(), StoreError> {
    let silent = now.saturating_sub(SILENCE);
    let tables = [
        ("job_document", "kind, id", "expires_at IS NOT NULL AND expires_at", now),
        ("job_request", "key, route, value", "expires_at", now),
        ("job_tombstone", "id", "until", now),
        ("job_worker", "id", "seen_at", silent),
    ];
    for (table, key, column, until) in tables {
        let lock = skip_locked(sql);
        let delete = format!(
            "DELETE FROM {table} WHERE ({key}) IN
                 (SELECT {key} FROM {table} WHERE {column} <= $1 ORDER BY {key} LIMIT $2{lock})"
        );
        sql.execute(&delete, values![until, ROWS]).await?;
    }
    Ok(())
}

/// Places outside the database that may no longer be named by any row.
pub(crate) async fn garbage(sql: &mut dyn Sql) -> Result<Vec<String>, StoreError> {
    let rows = sql.query("SELECT place FROM job_garbage ORDER BY place LIMIT $1", values![ROWS]).await?;
    rows.iter().map(|row| row.text(0).map(str::to_owned)).collect()
}

/// Whether a row names a place.
pub(crate) async fn is_named(sql: &mut dyn Sql, place: &str) -> Result<bool, StoreError> {
    let select = "SELECT 1 WHERE EXISTS (SELECT 1 FROM job_bytes WHERE blob = $1)
        OR EXISTS (SELECT 1 FROM job_file WHERE place = $1)";
    Ok(!sql.query(select, values![place]).await?.is_empty())
}

/// Forgets places that were looked after.
pub(crate) async fn forget_garbage(sql: &mut dyn Sql, places: &[String]) -> Result<(), StoreError> {
    for place in places {
        sql.execute("DELETE FROM job_garbage WHERE place = $1", values![place]).await?;
    }
    Ok(())
}
