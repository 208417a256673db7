//! Jobs that are looked at, cancelled, queued again and deleted by their owners.

use super::parts::{Loaded, read_part};
use super::work::Work;
use crate::error::StoreError;
use crate::rows::{JOB, read_job, status_word};
use crate::sql::{Sql, Value, values};
use crate::types::{JobEvent, JobFilter, Page};
use jobs::{Job, Millis, Refused};

/// For how long it is known that something was there.
const TOMBSTONE: Millis = 7 * 24 * 3_600_000;

/// Rows of a list at most.
pub(crate) const PAGE: usize = 10_000;

/// A job.
pub(crate) async fn get(sql: &mut dyn Sql, id: &str, key: Option<&str>) -> Result<Job, StoreError> {
    let select = format!("SELECT {JOB} FROM job WHERE id = $1");
    let rows = sql.query(&select, values![id]).await?;
    let job = rows.first().map(read_job).transpose()?;
    match job.filter(|job| key.is_none_or(|key| key == job.key)) {
        Some(job) => Ok(job),
        None => Err(missing(sql, id, key, "job").await?),
    }
}

/// Why a thing is not there.
pub(crate) async fn missing(
    sql: &mut dyn Sql,
    id: &str,
    key: Option<&str>,
    kind: &'static str,
) -> Result<StoreError, StoreError> {
    let rows =
        sql.query("SELECT key FROM job_tombstone WHERE id = $1 AND kind = $2", values![id, kind]).await?;
    let Some(row) = rows.first() else { return Ok(StoreError::NotFound(kind)) };
    let owner = row.text(0)?;
    Ok(if key.is_none_or(|key| key == owner) { StoreError::Gone(kind) } else { StoreError::NotFound(kind) })
}

/// Notes that a thing was there until its time was over.
pub(crate) async fn bury(
    sql: &mut dyn Sql,
    id: &str,
    key: &str,
    kind: &'static str,
    now: Millis,
) -> Result<(), StoreError> {
    let insert = "INSERT INTO job_tombstone (id, key, kind, until) VALUES ($1, $2, $3, $4)
        ON CONFLICT (id) DO UPDATE SET until = excluded.until";
    sql.execute(insert, values![id, key, kind, now.saturating_add(TOMBSTONE)]).await?;
    Ok(())
}

/// Bytes of a job.
pub(crate) async fn part(sql: &mut dyn Sql, id: &str, part: i64) -> Result<Loaded, StoreError> {
    get(sql, id, None).await?;
    read_part(sql, id, part).await
}

/// Jobs, newest first.
pub(crate) async fn list(sql: &mut dyn Sql, filter: &JobFilter) -> Result<Page<Job>, StoreError> {
    let mut list = List::new("job", JOB);
    if let Some(key) = &filter.key {
        list.only("key = ", key);
    }
    if let Some(status) = filter.status {
        list.only("status = ", status_word(status));
    }
    if filter.dead {
        list.also("dead = 1");
    }
    if let Some(model) = &filter.model {
        list.only("model = ", model);
    }
    if !filter.lines {
        list.also("batch IS NULL");
    }
    if let Some(after) = &filter.after {
        list.beyond("<", after);
    }
    list.page(sql, "DESC", filter.limit, read_job).await
}

/// Events of a job after one.
pub(crate) async fn events(sql: &mut dyn Sql, id: &str, after: u64) -> Result<Vec<JobEvent>, StoreError> {
    let select =
        "SELECT sequence, name, at, data FROM job_event WHERE job = $1 AND sequence > $2 ORDER BY sequence";
    let rows = sql.query(select, values![id, after]).await?;
    let read = |row: &crate::sql::Row| {
        Ok(JobEvent {
            sequence: row.count(0)?,
            name: row.text(1)?.to_owned(),
            at: row.int(2)?,
            data: row.text(3)?.to_owned(),
        })
    };
    rows.iter().map(read).collect()
}

/// A job of a key that is to be changed.
async fn lock(work: &mut Work<'_>, id: &str, key: Option<&str>) -> Result<Job, StoreError> {
    let job = work.lock_job(id).await?;
    match job.filter(|job| key.is_none_or(|key| key == job.key)) {
        Some(job) => Ok(job),
        None => Err(missing(work.sql, id, key, "job").await?),
    }
}

/// Cancels a job.
pub(crate) async fn cancel(
    sql: &mut dyn Sql,
    id: &str,
    key: Option<&str>,
    now: Millis,
) -> Result<Job, StoreError> {
    let mut work = Work::new(sql, now);
    let mut job = lock(&mut work, id, key).await?;
    let before = job.status;
    if let Ok(change) = job.cancel(now) {
        work.save_job(before, &job, change).await?;
        work.finish().await?;
    }
    Ok(job)
}

/// Queues an ended job again.
pub(crate) async fn retry(
    sql: &mut dyn Sql,
    id: &str,
    key: Option<&str>,
    deadline: Option<Millis>,
    now: Millis,
) -> Result<Job, StoreError> {
    let mut work = Work::new(sql, now);
    let mut job = lock(&mut work, id, key).await?;
    let before = job.status;
    match job.queue_again(deadline, now) {
        Ok(change) => {
            work.drop_parts(id, Some(crate::rows::RESULT)).await?;
            work.save_job(before, &job, change).await?;
            work.finish().await?;
            Ok(job)
        }
        Err(refused) => Err(conflict(id, refused)),
    }
}

pub(crate) fn conflict(id: &str, refused: Refused) -> StoreError {
    StoreError::Conflict(format!("{id}: {refused}"))
}

/// Deletes an ended job.
pub(crate) async fn delete(
    sql: &mut dyn Sql,
    id: &str,
    key: Option<&str>,
    now: Millis,
) -> Result<(), StoreError> {
    let mut work = Work::new(sql, now);
    let job = lock(&mut work, id, key).await?;
    if !job.status.is_terminal() {
        return Err(conflict(id, Refused::NotEnded));
    }
    if job.batch.is_some() {
        return Err(StoreError::Conflict(format!("{id} is a line of a batch, which is deleted as a whole")));
    }
    drop_job(&mut work, id).await?;
    work.finish().await?;
    Ok(())
}

/// Deletes the rows of a job that is locked and has ended.
pub(crate) async fn drop_job(work: &mut Work<'_>, id: &str) -> Result<(), StoreError> {
    work.drop_parts(id, None).await?;
    work.sql.execute("DELETE FROM job_event WHERE job = $1", values![id]).await?;
    work.sql.execute("DELETE FROM job WHERE id = $1", values![id]).await?;
    Ok(())
}

/// A question for rows that are ordered by `created_at` and `id`.
pub(crate) struct List {
    table: &'static str,
    columns: &'static str,
    conditions: Vec<String>,
    values: Vec<Value>,
}

impl List {
    pub(crate) fn new(table: &'static str, columns: &'static str) -> List {
        List { table, columns, conditions: Vec::new(), values: Vec::new() }
    }

    /// Only rows for which this holds.
    pub(crate) fn also(&mut self, condition: &str) {
        self.conditions.push(condition.to_owned());
    }

    /// Only rows for which this holds with a value.
    pub(crate) fn only(&mut self, condition: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        self.conditions.push(format!("{condition}${}", self.values.len()));
    }

    /// Only rows on one side of the row with this id.
    pub(crate) fn beyond(&mut self, side: &str, id: &str) {
        self.values.push(Value::from(id));
        let (table, at) = (self.table, self.values.len());
        self.conditions
            .push(format!("(created_at, id) {side} (SELECT created_at, id FROM {table} WHERE id = ${at})"));
    }

    /// The rows, at most `limit`.
    pub(crate) async fn page<T>(
        mut self,
        sql: &mut dyn Sql,
        order: &str,
        limit: usize,
        read: impl Fn(&crate::sql::Row) -> Result<T, StoreError>,
    ) -> Result<Page<T>, StoreError> {
        let limit = limit.clamp(1, PAGE);
        self.values.push(Value::Int(limit as i64 + 1));
        let limit_at = self.values.len();
        let holds =
            if self.conditions.is_empty() { "1 = 1".to_owned() } else { self.conditions.join(" AND ") };
        let select = format!(
            "SELECT {} FROM {} WHERE {holds} ORDER BY created_at {order}, id {order} LIMIT ${limit_at}",
            self.columns, self.table
        );
        let rows = sql.query(&select, self.values).await?;
        let more = rows.len() > limit;
        let rows = rows.iter().take(limit).map(read).collect::<Result<_, _>>()?;
        Ok(Page { rows, more })
    }
}
