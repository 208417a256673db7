//! Work that is given to workers.

use super::parts::{Loaded, read_part};
use super::work::Work;
use crate::error::StoreError;
use crate::rows::{BODY, CHECKPOINT, JOB, batch_status_word, class_number, read_job};
use crate::sql::{Sql, skip_locked, values};
use crate::types::Claim;
use jobs::schedule::Credits;
use jobs::{BatchStatus, Class, Job, Millis};
use std::collections::{BTreeSet, HashMap};

/// Jobs of one claim at most.
const MOST: usize = 256;

/// Lanes of a class that one claim looks at.
const LANES: i64 = 256;

/// A job that was claimed, and where its bytes are.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) job: Job,
    pub(crate) body: Loaded,
    pub(crate) checkpoint: Loaded,
}

/// Claims jobs. Returns what the classes are owed afterwards.
pub(crate) async fn claim(
    sql: &mut dyn Sql,
    claim: &Claim,
    credits: Credits,
    now: Millis,
) -> Result<(Vec<Taken>, Credits), StoreError> {
    let mut turn = Turn {
        work: Work::new(sql, now),
        claim,
        credits,
        open: claim.classes.clone(),
        lanes: HashMap::new(),
        batches: HashMap::new(),
        taken: Vec::new(),
    };
    turn.take_all().await?;
    let Turn { work, credits, taken: jobs, .. } = turn;
    let mut taken = Vec::with_capacity(jobs.len());
    for job in jobs {
        let body = read_part(work.sql, &job.id, BODY).await?;
        let checkpoint = read_part(work.sql, &job.id, CHECKPOINT).await?;
        taken.push(Taken { job, body, checkpoint });
    }
    work.finish().await?;
    Ok((taken, credits))
}

/// The lanes of a class that have work, by when they were served last; and when the next one is.
struct Lanes {
    queue: BTreeSet<(i64, String)>,
    next: i64,
}

struct Turn<'s, 'c> {
    work: Work<'s>,
    claim: &'c Claim,
    credits: Credits,
    /// Classes that are asked for and may have work.
    open: Vec<Class>,
    lanes: HashMap<Class, Lanes>,
    /// Whether lines of a batch may be run.
    batches: HashMap<String, bool>,
    taken: Vec<Job>,
}

impl Turn<'_, '_> {
    async fn take_all(&mut self) -> Result<(), StoreError> {
        while self.taken.len() < self.claim.most.min(MOST) {
            let mut credits = self.credits.clone();
            let Some(class) = credits.next(|class| self.open.contains(&class)) else { break };
            let Some(job) = self.take_of(class).await? else {
                self.open.retain(|other| *other != class);
                continue;
            };
            // Only a job takes a turn.
            self.credits = credits;
            let alone = job.runs_alone();
            self.taken.push(job);
            if alone {
                break;
            }
        }
        Ok(())
    }

    /// A job that was lost twice is given to an idle worker, as the only one.
    fn may_be_alone(&self) -> bool {
        self.claim.idle && self.taken.is_empty()
    }

    async fn take_of(&mut self, class: Class) -> Result<Option<Job>, StoreError> {
        if !self.lanes.contains_key(&class) {
            let lanes = self.read_lanes(class).await?;
            self.lanes.insert(class, lanes);
        }
        loop {
            let lane = self.lanes.get_mut(&class).and_then(|lanes| lanes.queue.pop_first());
            let Some((_, key)) = lane else { return Ok(None) };
            let Some(job) = self.take_from(class, &key).await? else { continue };
            if let Some(lanes) = self.lanes.get_mut(&class) {
                self.work.serve(class_number(class), &key, lanes.next);
                lanes.queue.insert((lanes.next, key));
                lanes.next += 1;
            }
            return Ok(Some(job));
        }
    }

    async fn read_lanes(&mut self, class: Class) -> Result<Lanes, StoreError> {
        let class = class_number(class);
        let last = "SELECT coalesce(max(served), 0) FROM job_lane WHERE class = $1";
        let last = self.work.sql.query(last, values![class]).await?;
        let next = last.first().map_or(Ok(0), |row| row.int(0))? + 1;
        let select = "SELECT key, served FROM job_lane AS l WHERE class = $1 AND EXISTS (
                SELECT 1 FROM job WHERE class = $1 AND key = l.key AND status = 'queued' AND ready = 1
                AND run_at <= $2 AND alone <= $3 AND (deadline IS NULL OR deadline > $2))
            ORDER BY served, key LIMIT $4";
        let row = values![class, self.work.now, self.may_be_alone(), LANES];
        let mut queue = BTreeSet::new();
        for row in self.work.sql.query(select, row).await? {
            queue.insert((row.int(1)?, row.text(0)?.to_owned()));
        }
        Ok(Lanes { queue, next })
    }

    /// Claims the first job of a lane.
    async fn take_from(&mut self, class: Class, key: &str) -> Result<Option<Job>, StoreError> {
        let lock = skip_locked(self.work.sql);
        let select = format!(
            "SELECT {JOB} FROM job WHERE class = $1 AND key = $2 AND status = 'queued' AND ready = 1
                AND run_at <= $3 AND alone <= $4 AND (deadline IS NULL OR deadline > $3)
            ORDER BY run_at, prefix_rank, id LIMIT 1{lock}"
        );
        let now = self.work.now;
        loop {
            let row = values![class_number(class), key, now, self.may_be_alone()];
            let rows = self.work.sql.query(&select, row).await?;
            let Some(mut job) = rows.first().map(read_job).transpose()? else { return Ok(None) };
            let before = job.status;
            let runs = self.may_run(&job).await?;
            let change = match runs {
                true => job.claim(&self.claim.worker, self.claim.lease_until, now),
                false => job.cancel(now),
            };
            let Ok(change) = change else { return Ok(None) };
            self.work.save_job(before, &job, change).await?;
            if runs {
                return Ok(Some(job));
            }
        }
    }

    /// Lines wait in vain while their batch is being cancelled.
    async fn may_run(&mut self, job: &Job) -> Result<bool, StoreError> {
        let Some(batch) = &job.batch else { return Ok(true) };
        if let Some(runs) = self.batches.get(batch) {
            return Ok(*runs);
        }
        let rows = self.work.sql.query("SELECT status FROM job_batch WHERE id = $1", values![batch]).await?;
        let cancelling = batch_status_word(BatchStatus::Cancelling);
        let runs = rows.first().map_or(Ok(false), |row| row.text(0).map(|status| status != cancelling))?;
        self.batches.insert(batch.clone(), runs);
        Ok(runs)
    }
}
