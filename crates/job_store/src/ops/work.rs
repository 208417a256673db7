//! What one transaction changes: rows of jobs at once, and what follows from them (counts of batches, lanes, counters) at
//! its end, in the order in which all transactions lock these rows.

use super::tally;
use crate::error::StoreError;
use crate::rows::{
    JOB, PUT_BATCH, UPDATE_JOB, all_values, batch_values, changing_values, class_number, from_json, read_job,
    sha256_hex, to_json,
};
use crate::sql::{Sql, for_update, values};
use jobs::batch::Batch;
use jobs::id::new_id;
use jobs::{BatchRefused, Change, Face, Job, JobStatus, LineOutcome, Millis, Usage};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Events of a job that are kept.
const EVENTS: u64 = 64;

/// A line that has ended.
struct EndedLine {
    outcome: LineOutcome,
    usage: Option<Usage>,
    cost_micros: Option<i64>,
}

/// A transaction and what it has changed so far.
pub(crate) struct Work<'s> {
    pub(crate) sql: &'s mut (dyn Sql + 's),
    pub(crate) now: Millis,
    /// Jobs that have ended.
    pub(crate) ended: Vec<String>,
    ended_lines: BTreeMap<String, Vec<EndedLine>>,
    lanes: BTreeSet<(i64, String)>,
    served: BTreeMap<(i64, String), i64>,
    tallies: BTreeMap<(&'static str, String), i64>,
}

impl<'s> Work<'s> {
    pub(crate) fn new(sql: &'s mut (dyn Sql + 's), now: Millis) -> Work<'s> {
        Work {
            sql,
            now,
            ended: Vec::new(),
            ended_lines: BTreeMap::new(),
            lanes: BTreeSet::new(),
            served: BTreeMap::new(),
            tallies: BTreeMap::new(),
        }
    }

    /// A job that is to be changed, locked.
    pub(crate) async fn lock_job(&mut self, id: &str) -> Result<Option<Job>, StoreError> {
        let lock = for_update(self.sql);
        let select = format!("SELECT {JOB} FROM job WHERE id = $1{lock}");
        let rows = self.sql.query(&select, values![id]).await?;
        rows.first().map(read_job).transpose()
    }

    /// A batch that is to be changed, locked.
    pub(crate) async fn lock_batch(&mut self, id: &str) -> Result<Option<Batch>, StoreError> {
        let lock = for_update(self.sql);
        let select = format!("SELECT json FROM job_batch WHERE id = $1{lock}");
        let rows = self.sql.query(&select, values![id]).await?;
        rows.first().map(|row| from_json(row.text(0)?)).transpose()
    }

    /// Writes a new job. Lines of batches are ready later.
    pub(crate) async fn insert_job(&mut self, job: &Job) -> Result<(), StoreError> {
        let is_line = job.batch.is_some();
        self.sql.execute(crate::rows::INSERT_JOB, all_values(job, !is_line)?).await?;
        self.count_open(job, 1);
        self.lanes.insert((class_number(job.class), job.key.clone()));
        if !is_line {
            self.event(job, Change::Queued).await?;
            self.sql.wake();
        }
        Ok(())
    }

    /// Writes a job that was changed, its event, and notes what follows.
    pub(crate) async fn save_job(
        &mut self,
        before: JobStatus,
        job: &Job,
        change: Change,
    ) -> Result<(), StoreError> {
        self.sql.execute(UPDATE_JOB, changing_values(job)?).await?;
        if job.batch.is_none() {
            self.event(job, change).await?;
        }
        match (before.is_terminal(), job.status.is_terminal()) {
            (false, true) => self.job_ended(job, change).await?,
            (true, false) => self.count_open(job, 1),
            _ => {}
        }
        if job.status == JobStatus::Queued {
            self.lanes.insert((class_number(job.class), job.key.clone()));
            self.sql.wake();
        }
        Ok(())
    }

    async fn job_ended(&mut self, job: &Job, change: Change) -> Result<(), StoreError> {
        self.count_open(job, -1);
        self.drop_parts(&job.id, Some(crate::rows::CHECKPOINT)).await?;
        self.ended.push(job.id.clone());
        if let (Some(batch), Some(outcome)) = (&job.batch, job.outcome()) {
            let line = EndedLine { outcome, usage: job.usage, cost_micros: job.cost_micros };
            self.ended_lines.entry(batch.clone()).or_default().push(line);
        }
        match webhook_event(job, change) {
            Some(name) => self.tell(name, &job.id, &job.key, job.webhook.as_deref(), job.sequence).await,
            None => Ok(()),
        }
    }

    fn count_open(&mut self, job: &Job, more: i64) {
        if job.batch.is_some() {
            self.count(tally::LINES, "", more);
        } else {
            self.count(tally::JOBS, &job.key, more);
            self.count(tally::ALL_JOBS, "", more);
        }
    }

    /// Adds to a counter at the end.
    pub(crate) fn count(&mut self, what: &'static str, key: &str, more: i64) {
        *self.tallies.entry((what, key.to_owned())).or_default() += more;
    }

    /// Notes that a key was given work, as the `served`-th time of its class.
    pub(crate) fn serve(&mut self, class: i64, key: &str, served: i64) {
        self.served.insert((class, key.to_owned()), served);
    }

    async fn event(&mut self, job: &Job, change: Change) -> Result<(), StoreError> {
        self.sql
            .execute(
                "INSERT INTO job_event (job, sequence, name, at, data) VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (job, sequence) DO NOTHING",
                values![&job.id, job.sequence, change.name(), self.now, to_json(job)?],
            )
            .await?;
        if job.sequence > EVENTS {
            let last = job.sequence - EVENTS;
            let delete = "DELETE FROM job_event WHERE job = $1 AND sequence <= $2";
            self.sql.execute(delete, values![&job.id, last]).await?;
        }
        Ok(())
    }

    /// Leaves word for the sender of webhooks, if anybody wants it: the object names one, or its key has endpoints.
    pub(crate) async fn tell(
        &mut self,
        event: &str,
        id: &str,
        key: &str,
        webhook: Option<&str>,
        sequence: u64,
    ) -> Result<(), StoreError> {
        if webhook.is_none() {
            let find = "SELECT 1 FROM job_document WHERE kind = 'webhook_endpoint' AND key = $1 LIMIT 1";
            if self.sql.query(find, values![key]).await?.is_empty() {
                return Ok(());
            }
        }
        let hash = sha256_hex(format!("{id} {event} {sequence}").as_bytes());
        let random = u128::from_str_radix(&hash[..32], 16).unwrap_or_default();
        let text = json!({ "type": event, "id": id, "webhook": webhook }).to_string();
        self.sql
            .execute(
                "INSERT INTO job_document (kind, id, key, owner, due, expires_at, created_at, json)
                 VALUES ('webhook_event', $1, $2, $3, $4, NULL, $4, $5) ON CONFLICT (kind, id) DO NOTHING",
                values![new_id("evt_", self.now, random), key, id, self.now, text],
            )
            .await?;
        Ok(())
    }

    /// Writes a batch, new or changed.
    pub(crate) async fn save_batch(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.sql.execute(PUT_BATCH, batch_values(batch)?).await?;
        Ok(())
    }

    /// Writes what follows from the changes of this transaction.
    pub(crate) async fn finish(mut self) -> Result<Vec<String>, StoreError> {
        for (id, lines) in std::mem::take(&mut self.ended_lines) {
            self.count_lines(&id, lines).await?;
        }
        for (class, key) in &self.lanes {
            self.sql
                .execute(
                    "INSERT INTO job_lane (class, key, served) VALUES ($1, $2, 0) ON CONFLICT (class, key) DO NOTHING",
                    values![*class, key],
                )
                .await?;
        }
        for ((class, key), served) in &self.served {
            let update = "UPDATE job_lane SET served = $3 WHERE class = $1 AND key = $2";
            self.sql.execute(update, values![*class, key, *served]).await?;
        }
        for ((what, key), more) in &self.tallies {
            if *more != 0 {
                tally::add(self.sql, what, key, *more).await?;
            }
        }
        Ok(self.ended)
    }

    async fn count_lines(&mut self, id: &str, lines: Vec<EndedLine>) -> Result<(), StoreError> {
        let Some(mut batch) = self.lock_batch(id).await? else { return Ok(()) };
        for line in lines {
            match batch.line_ended(line.outcome, line.usage, line.cost_micros) {
                Ok(_) => {}
                // A batch that failed forgets its lines.
                Err(BatchRefused::Ended) => return Ok(()),
                Err(refused) => return Err(StoreError::Unavailable(format!("batch {id}: {refused}"))),
            }
        }
        self.save_batch(&batch).await
    }
}

/// The event that webhooks are told when a job ends so.
fn webhook_event(job: &Job, change: Change) -> Option<&'static str> {
    match (job.face, change) {
        (Face::BatchLine | Face::MessageLine, _) => None,
        (Face::Job, _) => Some(change.name()),
        (Face::Response, Change::Succeeded) => Some("response.completed"),
        (Face::Response, Change::Cancelled) => Some("response.cancelled"),
        (Face::Response, _) => Some("response.failed"),
    }
}
