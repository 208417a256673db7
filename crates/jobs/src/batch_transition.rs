//! What may happen to a batch. Each method is a row of the state machine: it changes the batch and says how, or refuses and
//! changes nothing.
//!
//! | from | method | to |
//! |---|---|---|
//! | validating | `add_lines` | validating |
//! | validating | `begin` | in progress |
//! | validating | `fail` | failed |
//! | validating, in progress | `cancel` | cancelling |
//! | validating, in progress | `expire` | in progress, with no line that may still be run |
//! | any that is open | `line_ended` | the same |
//! | in progress, all lines ended | `finalize` | finalizing |
//! | cancelling, all lines ended | `finalize` | cancelling, with files |
//! | finalizing | `end` | completed, or expired |
//! | cancelling, with files | `end` | cancelled |

use crate::batch::{Batch, BatchKind, BatchStatus, Counts, FileError, LineOutcome};
use crate::job::{Job, JobStatus, Usage};
use crate::time::Millis;

/// At most so many errors of an input file are kept.
pub const MAX_FILE_ERRORS: usize = 100;

/// What happened to a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchChange {
    /// Lines became jobs.
    LinesAdded,
    /// Its lines may be run.
    InProgress,
    /// It ended: the input file is at fault.
    Failed,
    /// It is asked to stop.
    Cancelling,
    /// Its time is over: open lines are to be expired.
    Expiring,
    /// A line has ended.
    LineEnded,
    /// Every line has ended: the files are to be written.
    Finalizing,
    /// It ended.
    Completed,
    /// It ended after its time was over.
    Expired,
    /// It ended because that was asked for.
    Cancelled,
    /// Its results are gone.
    Archived,
}

impl BatchChange {
    /// Whether the batch has ended by it.
    pub fn is_end(self) -> bool {
        use BatchChange::{Cancelled, Completed, Expired, Failed};
        matches!(self, Completed | Failed | Expired | Cancelled)
    }

    /// The event that webhooks are told when a batch ends so.
    pub fn webhook_event(self, kind: BatchKind) -> Option<&'static str> {
        match (kind, self) {
            (BatchKind::Anthropic, change) => change.is_end().then_some("message_batch.ended"),
            (BatchKind::OpenAi, BatchChange::Completed) => Some("batch.completed"),
            (BatchKind::OpenAi, BatchChange::Failed) => Some("batch.failed"),
            (BatchKind::OpenAi, BatchChange::Expired) => Some("batch.expired"),
            (BatchKind::OpenAi, BatchChange::Cancelled) => Some("batch.cancelled"),
            _ => None,
        }
    }
}

/// Why nothing happened to a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BatchRefused {
    /// The batch has ended, or every line has and its files are being written.
    #[error("the batch has ended")]
    Ended,
    /// Only an ended batch can be archived.
    #[error("the batch has not ended")]
    NotEnded,
    /// Lines are only added and checked before the batch runs.
    #[error("the batch is no longer being validated")]
    NotValidating,
    /// Other lines follow than those that were offered.
    #[error("the batch has {lines_read} lines")]
    OtherPlace {
        /// Lines that have become jobs.
        lines_read: u64,
    },
    /// A batch without lines is not run.
    #[error("the batch has no lines")]
    Empty,
    /// The batch is being cancelled already.
    #[error("the batch is being cancelled")]
    Cancelling,
    /// Its time is not over.
    #[error("the batch's time is not over")]
    NotDue,
    /// Its time is over already.
    #[error("the batch's time was over before")]
    Expiring,
    /// Lines are open.
    #[error("lines of the batch have not ended")]
    Open,
    /// Every line was counted before.
    #[error("every line of the batch has ended")]
    Settled,
    /// The ids of the files were chosen before, and stay.
    #[error("the batch has its files already")]
    Finalized,
    /// The ids of the files were not chosen.
    #[error("the batch has no files yet")]
    NotFinalized,
    /// The batch is archived already.
    #[error("the batch is archived")]
    Archived,
}

impl Job {
    /// How a line has ended; none while it is open.
    pub fn outcome(&self) -> Option<LineOutcome> {
        match self.status {
            JobStatus::Succeeded => Some(LineOutcome::Succeeded),
            JobStatus::Failed => Some(LineOutcome::Errored),
            JobStatus::Cancelled => Some(LineOutcome::Cancelled),
            JobStatus::Expired => Some(LineOutcome::Expired),
            JobStatus::Queued | JobStatus::Running | JobStatus::Cancelling => None,
        }
    }
}

impl Counts {
    /// Lines that have ended.
    pub fn ended(&self) -> u64 {
        self.succeeded
            .saturating_add(self.errored)
            .saturating_add(self.cancelled)
            .saturating_add(self.expired)
    }

    /// Lines that have not ended.
    pub fn open(&self) -> u64 {
        self.total.saturating_sub(self.ended())
    }

    fn count(&mut self, outcome: LineOutcome) {
        let count = match outcome {
            LineOutcome::Succeeded => &mut self.succeeded,
            LineOutcome::Errored => &mut self.errored,
            LineOutcome::Cancelled => &mut self.cancelled,
            LineOutcome::Expired => &mut self.expired,
        };
        *count = count.saturating_add(1);
    }
}

impl Batch {
    /// `count` lines became jobs, the first of them with the number `from`.
    ///
    /// # Errors
    /// [`BatchRefused::NotValidating`], and [`BatchRefused::OtherPlace`] if another line is the next.
    pub fn add_lines(&mut self, from: u64, count: u64) -> Result<BatchChange, BatchRefused> {
        self.is_validating()?;
        if self.lines_read != from {
            return Err(BatchRefused::OtherPlace { lines_read: self.lines_read });
        }
        self.lines_read = self.lines_read.saturating_add(count);
        self.counts.total = self.lines_read;
        Ok(BatchChange::LinesAdded)
    }

    /// All lines are there and may be run.
    ///
    /// # Errors
    /// [`BatchRefused::NotValidating`], [`BatchRefused::Empty`].
    pub fn begin(&mut self, now: Millis) -> Result<BatchChange, BatchRefused> {
        self.is_validating()?;
        if self.counts.total == 0 {
            return Err(BatchRefused::Empty);
        }
        self.status = BatchStatus::InProgress;
        self.in_progress_at = Some(now);
        Ok(BatchChange::InProgress)
    }

    /// The input is at fault. The lines that had become jobs are forgotten; the first errors are kept.
    ///
    /// # Errors
    /// [`BatchRefused::NotValidating`].
    pub fn fail(&mut self, errors: Vec<FileError>, now: Millis) -> Result<BatchChange, BatchRefused> {
        self.is_validating()?;
        self.status = BatchStatus::Failed;
        self.failed_at = Some(now);
        self.errors = errors;
        self.errors.truncate(MAX_FILE_ERRORS);
        self.counts = Counts::default();
        self.usage = Usage::default();
        Ok(BatchChange::Failed)
    }

    /// Somebody wants the batch to stop. Its open lines are to be cancelled.
    ///
    /// # Errors
    /// [`BatchRefused::Cancelling`] if that was asked for before, [`BatchRefused::Ended`] if every line has ended anyway.
    pub fn cancel(&mut self, now: Millis) -> Result<BatchChange, BatchRefused> {
        match self.status {
            BatchStatus::Validating | BatchStatus::InProgress => {
                self.status = BatchStatus::Cancelling;
                self.cancelling_at = Some(now);
                Ok(BatchChange::Cancelling)
            }
            BatchStatus::Cancelling | BatchStatus::Cancelled => Err(BatchRefused::Cancelling),
            _ => Err(BatchRefused::Ended),
        }
    }

    /// The batch's time is over. Its open lines are to be expired, also if not all of them had been read.
    ///
    /// # Errors
    /// [`BatchRefused::NotDue`], [`BatchRefused::Expiring`] the second time, [`BatchRefused::Cancelling`],
    /// [`BatchRefused::Ended`] also if only the files are missing.
    pub fn expire(&mut self, now: Millis) -> Result<BatchChange, BatchRefused> {
        match self.status {
            BatchStatus::Validating | BatchStatus::InProgress => {}
            BatchStatus::Cancelling => return Err(BatchRefused::Cancelling),
            _ => return Err(BatchRefused::Ended),
        }
        if self.expired_at.is_some() {
            return Err(BatchRefused::Expiring);
        }
        if self.is_settled() {
            return Err(BatchRefused::Ended);
        }
        if now < self.expires_at {
            return Err(BatchRefused::NotDue);
        }
        self.status = BatchStatus::InProgress;
        self.in_progress_at = self.in_progress_at.or(Some(now));
        self.expired_at = Some(now);
        Ok(BatchChange::Expiring)
    }

    /// A line has ended: it is counted, with what it took.
    ///
    /// # Errors
    /// [`BatchRefused::Ended`], and [`BatchRefused::Settled`] if all lines were counted before.
    pub fn line_ended(
        &mut self,
        outcome: LineOutcome,
        usage: Option<Usage>,
        cost_micros: Option<i64>,
    ) -> Result<BatchChange, BatchRefused> {
        if self.status.is_terminal() {
            return Err(BatchRefused::Ended);
        }
        if self.counts.open() == 0 {
            return Err(BatchRefused::Settled);
        }
        self.counts.count(outcome);
        self.usage = self.usage.plus(usage.unwrap_or_default());
        if let Some(cost) = cost_micros {
            self.cost_micros = Some(self.cost_micros.unwrap_or(0).saturating_add(cost));
        }
        Ok(BatchChange::LineEnded)
    }

    /// Whether no line is open and none can be added, so that the files can be written.
    pub fn is_settled(&self) -> bool {
        self.status != BatchStatus::Validating && self.counts.open() == 0
    }

    /// The files get their ids, once: whoever goes on after a crash writes the same files. None is a file that is not
    /// needed.
    ///
    /// # Errors
    /// [`BatchRefused::Ended`], [`BatchRefused::Finalized`] if that was done before, [`BatchRefused::Open`].
    pub fn finalize(
        &mut self,
        output: Option<String>,
        errors: Option<String>,
        now: Millis,
    ) -> Result<BatchChange, BatchRefused> {
        if self.status.is_terminal() {
            return Err(BatchRefused::Ended);
        }
        if self.finalizing_at.is_some() {
            return Err(BatchRefused::Finalized);
        }
        if !self.is_settled() {
            return Err(BatchRefused::Open);
        }
        if self.status == BatchStatus::InProgress {
            self.status = BatchStatus::Finalizing;
        }
        self.finalizing_at = Some(now);
        self.output_file = output;
        self.error_file = errors;
        Ok(BatchChange::Finalizing)
    }

    /// The files are written: the batch has ended, by the way it came.
    ///
    /// # Errors
    /// [`BatchRefused::Ended`] the second time, [`BatchRefused::NotFinalized`].
    pub fn end(&mut self, now: Millis) -> Result<BatchChange, BatchRefused> {
        if self.status.is_terminal() {
            return Err(BatchRefused::Ended);
        }
        if self.finalizing_at.is_none() {
            return Err(BatchRefused::NotFinalized);
        }
        if self.status == BatchStatus::Cancelling {
            self.status = BatchStatus::Cancelled;
            self.cancelled_at = Some(now);
            return Ok(BatchChange::Cancelled);
        }
        if self.expired_at.is_some() {
            self.status = BatchStatus::Expired;
            self.expired_at = Some(now);
            return Ok(BatchChange::Expired);
        }
        self.status = BatchStatus::Completed;
        self.completed_at = Some(now);
        Ok(BatchChange::Completed)
    }

    /// The results are deleted; the batch itself can still be seen.
    ///
    /// # Errors
    /// [`BatchRefused::NotEnded`], [`BatchRefused::Archived`] the second time.
    pub fn archive(&mut self, now: Millis) -> Result<BatchChange, BatchRefused> {
        if !self.status.is_terminal() {
            return Err(BatchRefused::NotEnded);
        }
        if self.archived_at.is_some() {
            return Err(BatchRefused::Archived);
        }
        self.archived_at = Some(now);
        Ok(BatchChange::Archived)
    }

    fn is_validating(&self) -> Result<(), BatchRefused> {
        match self.status {
            BatchStatus::Validating => Ok(()),
            _ => Err(BatchRefused::NotValidating),
        }
    }
}

#[cfg(test)]
#[path = "batch_transition_tests.rs"]
mod tests;
