//! Counters of what is kept, for its bounds. Each is the sum of some rows, one a connection, so that transactions of several
//! connections do not wait for each other.

use crate::error::StoreError;
use crate::sql::{Sql, values};

/// Open jobs of a key that are not lines of batches.
pub(crate) const JOBS: &str = "jobs";
/// Open jobs of all keys that are not lines of batches.
pub(crate) const ALL_JOBS: &str = "all_jobs";
/// Open lines of all batches.
pub(crate) const LINES: &str = "lines";
/// Bytes of bodies, results and files.
pub(crate) const BYTES: &str = "bytes";
/// Of these, bytes that lie outside the tables: files and large bodies.
pub(crate) const BLOBS: &str = "blobs";

/// A counter as it is now.
pub(crate) async fn read(sql: &mut dyn Sql, what: &str, key: &str) -> Result<u64, StoreError> {
    let rows = sql.query(
        "SELECT CAST(coalesce(sum(n), 0) AS BIGINT) FROM job_tally WHERE what = $1 AND key = $2",
        values![what, key],
    );
    rows.await?.first().map_or(Ok(0), |row| row.count(0))
}

/// Refuses what would go beyond a bound.
pub(crate) async fn check(
    sql: &mut dyn Sql,
    (what, key): (&str, &str),
    more: u64,
    (name, most): (&'static str, u64),
) -> Result<(), StoreError> {
    let now = read(sql, what, key).await?;
    if now.saturating_add(more) > most { Err(StoreError::Limit { what: name, most }) } else { Ok(()) }
}

/// Adds to a counter.
pub(crate) async fn add(sql: &mut dyn Sql, what: &str, key: &str, n: i64) -> Result<(), StoreError> {
    let shard = sql.shard();
    sql.execute(
        "INSERT INTO job_tally (what, key, shard, n) VALUES ($1, $2, $3, $4)
         ON CONFLICT (what, key, shard) DO UPDATE SET n = job_tally.n + excluded.n",
        values![what, key, shard, n],
    )
    .await?;
    Ok(())
}

/// Counts everything anew.
#[cfg(feature = "postgres")]
pub(crate) async fn recount(sql: &mut dyn Sql) -> Result<(), StoreError> {
    sql.execute("DELETE FROM job_tally", Vec::new()).await?;
    for (what, key, n, from) in COUNTS {
        let insert =
            format!("INSERT INTO job_tally (what, key, shard, n) SELECT '{what}', {key}, 0, {n} FROM {from}");
        sql.execute(&insert, Vec::new()).await?;
    }
    Ok(())
}

/// What each counter counts: its name, its key, what is counted, and the rows.
const COUNTS: &[(&str, &str, &str, &str)] = &[
    (JOBS, "key", "count(*)", "job WHERE batch IS NULL AND retain_until IS NULL GROUP BY key"),
    (ALL_JOBS, "''", "count(*)", "job WHERE batch IS NULL AND retain_until IS NULL"),
    (
        LINES,
        "''",
        "count(*)",
        "job WHERE batch IS NOT NULL AND status IN ('queued', 'running', 'cancelling')",
    ),
    (BYTES, "''", "CAST(coalesce(sum(size), 0) AS BIGINT)", ALL_BYTES),
    (
        BLOBS,
        "''",
        "CAST(coalesce(sum(size), 0) AS BIGINT)",
        "(SELECT size FROM job_file UNION ALL SELECT size FROM job_bytes WHERE blob IS NOT NULL) AS sizes",
    ),
];

const ALL_BYTES: &str = "(SELECT size FROM job_file UNION ALL SELECT size FROM job_bytes) AS sizes";

/// Counters that do not tell what is there, in words.
pub(crate) async fn wrong(sql: &mut dyn Sql) -> Result<Vec<String>, StoreError> {
    let mut wrong = Vec::new();
    for (what, key, n, from) in COUNTS {
        let select = format!("SELECT {key}, {n} FROM {from}");
        for row in sql.query(&select, Vec::new()).await? {
            let (key, real) = (row.text(0)?.to_owned(), row.count(1)?);
            let counted = read(sql, what, &key).await?;
            if counted != real {
                wrong.push(format!("the counter {what} of `{key}` is {counted}, but there are {real}"));
            }
        }
    }
    Ok(wrong)
}
