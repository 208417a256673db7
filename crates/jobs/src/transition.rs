//! What may happen to a job. Each method is a row of the state machine: it changes the job and names the event, or refuses
//! and changes nothing.
//!
//! | from | method | to |
//! |---|---|---|
//! | queued | `claim` | running |
//! | running | `renew` | running |
//! | running | `succeed`, `fail` | succeeded, failed |
//! | running | `retry_later` | queued, or failed and dead |
//! | running | `release` | queued |
//! | running | `lose_lease`, `take_back` | queued, or failed and dead |
//! | queued | `cancel` | cancelled |
//! | running | `cancel` | cancelling |
//! | cancelling | `confirm_cancel`, and whatever else ends the attempt | cancelled |
//! | queued, running | `expire` | expired |
//! | failed, expired, cancelled | `queue_again` | queued |

use crate::job::{Face, Job, JobError, JobStatus, Progress, Usage};
use crate::schedule::backoff;
use crate::time::Millis;

/// After so many lost leases a job is run alone.
const LOST_BEFORE_ALONE: u32 = 2;
/// After so many lost leases a job is a dead letter.
const LOST_BEFORE_DEAD: u32 = 3;

/// What happened to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// It waits for a worker: given back by a worker that stops, or queued again by hand.
    Queued,
    /// A worker took it.
    Running,
    /// Its worker is further.
    Progress,
    /// An attempt failed; it waits for the next one.
    Retrying,
    /// Its worker is asked to stop.
    Cancelling,
    /// It ended with a result.
    Succeeded,
    /// It ended with an error.
    Failed,
    /// It ended because that was asked for.
    Cancelled,
    /// It ended because its time was over.
    Expired,
}

impl Change {
    /// The event's name, such as `job.running`.
    pub fn name(self) -> &'static str {
        match self {
            Change::Queued => "job.queued",
            Change::Running => "job.running",
            Change::Progress => "job.progress",
            Change::Retrying => "job.retrying",
            Change::Cancelling => "job.cancelling",
            Change::Succeeded => "job.succeeded",
            Change::Failed => "job.failed",
            Change::Cancelled => "job.cancelled",
            Change::Expired => "job.expired",
        }
    }

    /// Whether the job has ended by it.
    pub fn is_end(self) -> bool {
        matches!(self, Change::Succeeded | Change::Failed | Change::Cancelled | Change::Expired)
    }
}

/// Why nothing happened to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refused {
    /// The write names another epoch than the job's, or nobody holds the job any more.
    #[error("another attempt holds the job, or none")]
    Fenced,
    /// The job has ended, in a way that does not allow it.
    #[error("the job has ended")]
    Ended,
    /// Only what has ended can be queued again.
    #[error("the job has not ended")]
    NotEnded,
    /// Too early: before `run_at`, the end of the lease, or the deadline.
    #[error("it is too early for that")]
    NotDue,
    /// The deadline has passed: the job is only to be expired.
    #[error("the job's deadline has passed")]
    PastDeadline,
    /// Only a waiting job can be claimed.
    #[error("the job does not wait for a worker")]
    NotQueued,
    /// No worker holds a lease.
    #[error("the job is not running")]
    NotRunning,
    /// The job is to be stopped: its lease is not renewed.
    #[error("the job is being cancelled")]
    Cancelling,
    /// Nobody asked to cancel the job.
    #[error("nobody asked to cancel the job")]
    NotCancelling,
    /// Lines are counted by their batch once: they are run again by a new batch.
    #[error("a line of a batch is run again by a new batch")]
    LineOfBatch,
}

/// The result of a job that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Success {
    /// HTTP status.
    pub status_code: u16,
    /// SHA-256 of the result, in hex.
    pub result_sha256: String,
    /// Bytes of the result.
    pub result_bytes: u64,
    /// Tokens that it took.
    pub usage: Usage,
    /// What it cost, in millionths of the server's currency.
    pub cost_micros: Option<i64>,
}

/// A worker takes the job, and gives it back or ends it. A write with an epoch that is not the job's is refused as
/// [`Refused::Fenced`].
///
/// Once somebody asked to cancel the job, whatever its worker writes at the end of the attempt ends it as cancelled: a
/// success counts only if it was there before that wish. A result is therefore to be kept only with the change
/// [`Change::Succeeded`] or [`Change::Failed`].
impl Job {
    /// A worker takes the job until `lease_until`: the epoch rises, and the attempt counts.
    ///
    /// # Errors
    /// [`Refused::NotQueued`], [`Refused::NotDue`] before `run_at`, [`Refused::PastDeadline`].
    pub fn claim(&mut self, worker: &str, lease_until: Millis, now: Millis) -> Result<Change, Refused> {
        if self.status != JobStatus::Queued {
            return Err(Refused::NotQueued);
        }
        if self.is_past_deadline(now) {
            return Err(Refused::PastDeadline);
        }
        if self.run_at > now {
            return Err(Refused::NotDue);
        }
        self.status = JobStatus::Running;
        self.epoch = self.epoch.saturating_add(1);
        self.attempts = self.attempts.saturating_add(1);
        self.worker = Some(worker.to_owned());
        self.lease_until = Some(lease_until);
        self.started_at = self.started_at.or(Some(now));
        self.progress = Progress::waiting();
        Ok(self.changed(Change::Running))
    }

    /// The worker goes on: the lease ends later, never earlier.
    ///
    /// # Errors
    /// [`Refused::Fenced`], and [`Refused::Cancelling`] if the worker is to stop.
    pub fn renew(&mut self, epoch: u64, lease_until: Millis, progress: Progress) -> Result<Change, Refused> {
        self.held_by(epoch)?;
        if self.status == JobStatus::Cancelling {
            return Err(Refused::Cancelling);
        }
        self.lease_until = self.lease_until.max(Some(lease_until));
        self.progress = progress;
        Ok(self.changed(Change::Progress))
    }

    /// The worker has the result.
    ///
    /// # Errors
    /// [`Refused::Fenced`].
    pub fn succeed(&mut self, epoch: u64, success: Success, now: Millis) -> Result<Change, Refused> {
        self.held_by(epoch)?;
        self.usage = Some(success.usage);
        self.cost_micros = success.cost_micros;
        if self.status == JobStatus::Cancelling {
            return Ok(self.end(Change::Cancelled, None, now));
        }
        self.status_code = Some(success.status_code);
        self.result_sha256 = Some(success.result_sha256);
        self.result_bytes = Some(success.result_bytes);
        Ok(self.end(Change::Succeeded, None, now))
    }

    /// The request itself is at fault: another attempt would not help.
    ///
    /// # Errors
    /// [`Refused::Fenced`].
    pub fn fail(
        &mut self,
        epoch: u64,
        status_code: u16,
        error: JobError,
        now: Millis,
    ) -> Result<Change, Refused> {
        self.held_by(epoch)?;
        if self.status == JobStatus::Cancelling {
            return Ok(self.end(Change::Cancelled, None, now));
        }
        self.status_code = Some(status_code);
        Ok(self.end(Change::Failed, Some(error), now))
    }

    /// The attempt failed by a fault that may pass. The next one comes after a pause ([`backoff`]); after the last one the
    /// job is a dead letter. `random` is a fraction in 0..1.
    ///
    /// # Errors
    /// [`Refused::Fenced`].
    pub fn retry_later(
        &mut self,
        epoch: u64,
        error: JobError,
        status_code: Option<u16>,
        random: f64,
        now: Millis,
    ) -> Result<Change, Refused> {
        self.held_by(epoch)?;
        if self.status == JobStatus::Cancelling {
            return Ok(self.end(Change::Cancelled, None, now));
        }
        self.status_code = status_code;
        if self.attempts >= self.max_attempts {
            self.dead = true;
            return Ok(self.end(Change::Failed, Some(error), now));
        }
        self.error = Some(error);
        let pause = backoff(self.attempts, random);
        Ok(self.wait_until(now.saturating_add(pause), Change::Retrying))
    }

    /// The worker stops and gives the job back: the attempt does not count.
    ///
    /// # Errors
    /// [`Refused::Fenced`].
    pub fn release(&mut self, epoch: u64, now: Millis) -> Result<Change, Refused> {
        self.held_by(epoch)?;
        if self.status == JobStatus::Cancelling {
            return Ok(self.end(Change::Cancelled, None, now));
        }
        self.attempts = self.attempts.saturating_sub(1);
        Ok(self.wait_until(now, Change::Queued))
    }

    /// The worker has stopped because it was asked to.
    ///
    /// # Errors
    /// [`Refused::Fenced`], [`Refused::NotCancelling`].
    pub fn confirm_cancel(&mut self, epoch: u64, usage: Usage, now: Millis) -> Result<Change, Refused> {
        self.held_by(epoch)?;
        if self.status != JobStatus::Cancelling {
            return Err(Refused::NotCancelling);
        }
        self.usage = Some(usage);
        Ok(self.end(Change::Cancelled, None, now))
    }
}

/// What others do to a job: its owner, and whoever looks after leases and deadlines.
impl Job {
    /// The lease has ended and its worker was not heard of. The attempt counts, and a job that loses its workers again and
    /// again is first run alone ([`Job::runs_alone`]) and then dead, so that it cannot take down one node after another.
    ///
    /// # Errors
    /// [`Refused::NotRunning`], and [`Refused::NotDue`] before the lease has ended.
    pub fn lose_lease(&mut self, now: Millis) -> Result<Change, Refused> {
        if self.lease_until.is_some_and(|end| end >= now) {
            return Err(Refused::NotDue);
        }
        self.take_back(now)
    }

    /// As [`Job::lose_lease`], whenever the lease ends: the worker is known not to live any more.
    ///
    /// # Errors
    /// [`Refused::NotRunning`].
    pub fn take_back(&mut self, now: Millis) -> Result<Change, Refused> {
        match self.status {
            JobStatus::Running => {}
            JobStatus::Cancelling => return Ok(self.end(Change::Cancelled, None, now)),
            _ => return Err(Refused::NotRunning),
        }
        self.lost_leases = self.lost_leases.saturating_add(1);
        let error = worker_lost(self.lost_leases);
        if self.lost_leases >= LOST_BEFORE_DEAD || self.attempts >= self.max_attempts {
            self.dead = true;
            return Ok(self.end(Change::Failed, Some(error), now));
        }
        self.error = Some(error);
        Ok(self.wait_until(now, Change::Retrying))
    }

    /// Somebody wants the job to stop: at once if it waits, else as soon as its worker learns of it.
    ///
    /// # Errors
    /// [`Refused::Cancelling`] if that was asked for before, [`Refused::Ended`]. Both leave the job as it is, so that a
    /// second wish can be answered like the first.
    pub fn cancel(&mut self, now: Millis) -> Result<Change, Refused> {
        match self.status {
            JobStatus::Queued => {
                self.cancel_requested_at = Some(now);
                Ok(self.end(Change::Cancelled, None, now))
            }
            JobStatus::Running => {
                self.cancel_requested_at = Some(now);
                self.status = JobStatus::Cancelling;
                Ok(self.changed(Change::Cancelling))
            }
            JobStatus::Cancelling => Err(Refused::Cancelling),
            _ => Err(Refused::Ended),
        }
    }

    /// The deadline has passed. A job that is being cancelled ends as cancelled.
    ///
    /// # Errors
    /// [`Refused::NotDue`] before the deadline or without one, [`Refused::Ended`].
    pub fn expire(&mut self, now: Millis) -> Result<Change, Refused> {
        if self.status.is_terminal() {
            return Err(Refused::Ended);
        }
        if !self.is_past_deadline(now) {
            return Err(Refused::NotDue);
        }
        if self.status == JobStatus::Cancelling {
            return Ok(self.end(Change::Cancelled, None, now));
        }
        let error = expired(self.face);
        Ok(self.end(Change::Expired, Some(error), now))
    }

    /// Queues an ended job again, by hand: attempts are counted anew, and the epoch rises.
    ///
    /// # Errors
    /// [`Refused::NotEnded`], [`Refused::Ended`] if it succeeded, [`Refused::LineOfBatch`], [`Refused::PastDeadline`] if
    /// the new deadline has passed.
    pub fn queue_again(&mut self, deadline: Option<Millis>, now: Millis) -> Result<Change, Refused> {
        match self.status {
            JobStatus::Failed | JobStatus::Expired | JobStatus::Cancelled => {}
            JobStatus::Succeeded => return Err(Refused::Ended),
            _ => return Err(Refused::NotEnded),
        }
        if self.batch.is_some() {
            return Err(Refused::LineOfBatch);
        }
        if deadline.is_some_and(|end| end <= now) {
            return Err(Refused::PastDeadline);
        }
        self.forget_ending();
        self.epoch = self.epoch.saturating_add(1);
        self.attempts = 0;
        self.lost_leases = 0;
        self.deadline = deadline;
        Ok(self.wait_until(now, Change::Queued))
    }

    /// Whether the job has lost so many leases that it is only run where nothing else runs.
    pub fn runs_alone(&self) -> bool {
        self.lost_leases >= LOST_BEFORE_ALONE
    }

    /// Whether the deadline has passed.
    pub fn is_past_deadline(&self, now: Millis) -> bool {
        self.deadline.is_some_and(|end| end <= now)
    }
}

impl Job {
    fn held_by(&self, epoch: u64) -> Result<(), Refused> {
        let held = matches!(self.status, JobStatus::Running | JobStatus::Cancelling);
        if held && self.epoch == epoch { Ok(()) } else { Err(Refused::Fenced) }
    }

    fn changed(&mut self, change: Change) -> Change {
        self.sequence = self.sequence.saturating_add(1);
        change
    }

    fn wait_until(&mut self, run_at: Millis, change: Change) -> Change {
        self.status = JobStatus::Queued;
        self.run_at = run_at;
        self.worker = None;
        self.lease_until = None;
        self.progress = Progress::waiting();
        self.changed(change)
    }

    fn end(&mut self, change: Change, error: Option<JobError>, now: Millis) -> Change {
        self.status = match change {
            Change::Succeeded => JobStatus::Succeeded,
            Change::Cancelled => JobStatus::Cancelled,
            Change::Expired => JobStatus::Expired,
            _ => JobStatus::Failed,
        };
        if matches!(change, Change::Cancelled | Change::Expired) {
            // Of an earlier attempt.
            self.status_code = None;
        }
        self.error = error;
        self.worker = None;
        self.lease_until = None;
        self.finished_at = Some(now);
        self.changed(change)
    }

    fn forget_ending(&mut self) {
        self.dead = false;
        self.error = None;
        self.status_code = None;
        self.result_sha256 = None;
        self.result_bytes = None;
        self.usage = None;
        self.cost_micros = None;
        self.finished_at = None;
        self.cancel_requested_at = None;
    }
}

fn worker_lost(times: u32) -> JobError {
    JobError {
        code: "worker_lost".to_owned(),
        message: format!("the worker that ran the request was lost ({times} of {LOST_BEFORE_DEAD} times)"),
        param: None,
    }
}

fn expired(face: Face) -> JobError {
    let (code, message) = match face {
        Face::BatchLine | Face::MessageLine => {
            ("batch_expired", "the request was not finished within the batch's completion window")
        }
        Face::Job | Face::Response => ("job_expired", "the request was not finished before its deadline"),
    };
    JobError { code: code.to_owned(), message: message.to_owned(), param: None }
}

#[cfg(test)]
#[path = "transition_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "transition_model_tests.rs"]
mod model_tests;
