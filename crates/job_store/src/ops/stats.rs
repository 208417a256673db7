//! What is kept, in numbers.

use super::tally;
use crate::error::StoreError;
use crate::rows::{batch_status_of, class_of, status_of};
use crate::sql::Sql;
use crate::types::{Stats, StatsRow};

/// What is kept, in numbers.
pub(crate) async fn stats(sql: &mut dyn Sql) -> Result<Stats, StoreError> {
    let mut stats = Stats::default();
    let select =
        "SELECT status, class, count(*), min(run_at) FROM job GROUP BY status, class ORDER BY status, class";
    for row in sql.query(select, Vec::new()).await? {
        let Some(status) = status_of(row.text(0)?) else { continue };
        let oldest = row.int_or_none(3)?.filter(|_| status == jobs::JobStatus::Queued);
        stats.rows.push(StatsRow { status, class: class_of(row.int(1)?), jobs: row.count(2)?, oldest });
    }
    let dead = sql.query("SELECT count(*) FROM job WHERE dead = 1", Vec::new()).await?;
    stats.dead = dead.first().map_or(Ok(0), |row| row.count(0))?;
    let select = "SELECT status, count(*) FROM job_batch GROUP BY status ORDER BY status";
    for row in sql.query(select, Vec::new()).await? {
        if let Some(status) = batch_status_of(row.text(0)?) {
            stats.batches.push((status, row.count(1)?));
        }
    }
    stats.table_bytes = sql.table_bytes().await?;
    stats.blob_bytes = tally::read(sql, tally::BLOBS, "").await?;
    Ok(stats)
}
