//! A snapshot of an encoder that anyone may take at any time, and the hook for what a snapshot cannot show.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use super::EncodeError;
use crate::times::{TimeSplit, TimeTotals};

/// Gauges and totals. Each is exact, but they may be read at slightly different times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EncoderStats {
    /// Texts of the present step.
    pub running: usize,
    /// Texts in the queue.
    pub waiting: usize,
    /// Tokens of the texts in the queue.
    pub waiting_tokens: usize,
    /// Steps computed.
    pub steps: u64,
    /// Texts delivered.
    pub texts: u64,
    /// Tokens computed; equal texts of a step count once.
    pub tokens: u64,
    /// Texts delivered that were equal to another of their step, and so not computed.
    pub shared_texts: u64,
    /// Jobs whose texts were all delivered.
    pub finished: u64,
    /// Jobs cancelled.
    pub cancelled: u64,
    /// Jobs whose time limit was over, in the queue or later.
    pub expired: u64,
    /// Jobs that failed otherwise.
    pub failed: u64,
    /// Submissions refused because the queue was full.
    pub refused_busy: u64,
    /// Time of steps, up to the last unit that ended.
    pub machine_time: Duration,
    /// Time with work, waiting for the device.
    pub waiting_time: Duration,
    /// Time without work.
    pub idle_time: Duration,
}

/// Counts of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncoderStepReport {
    /// Texts delivered.
    pub texts: usize,
    /// Tokens computed.
    pub tokens: usize,
    /// Time of the step's units; waits for turns are left out.
    pub took: Duration,
}

/// An observer of an encoder. Called on the encoder's thread, so it must not block.
pub trait EncodeWatch: Send {
    /// A unit of a step was computed: the encoder is alive.
    fn unit(&mut self) {}
    /// A step ended.
    fn step(&mut self, _step: &EncoderStepReport) {}
    /// A turn on the device ended, for which the encoder had waited.
    fn turn(&mut self, _waited: Duration, _held: Duration) {}
}

impl EncodeWatch for crate::Unwatched {}

/// The live form of [`EncoderStats`].
#[derive(Debug, Default)]
pub(crate) struct EncoderCounters {
    pub(crate) running: AtomicUsize,
    pub(crate) waiting: AtomicUsize,
    pub(crate) waiting_tokens: AtomicUsize,
    pub(crate) steps: AtomicU64,
    pub(crate) texts: AtomicU64,
    pub(crate) tokens: AtomicU64,
    pub(crate) shared_texts: AtomicU64,
    pub(crate) finished: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) refused_busy: AtomicU64,
    pub(crate) times: TimeTotals,
}

impl EncoderCounters {
    pub(crate) fn enter_queue(&self, texts: usize, tokens: usize) {
        self.waiting.fetch_add(texts, Relaxed);
        self.waiting_tokens.fetch_add(tokens, Relaxed);
    }

    pub(crate) fn leave_queue(&self, texts: usize, tokens: usize) {
        self.waiting.fetch_sub(texts, Relaxed);
        self.waiting_tokens.fetch_sub(tokens, Relaxed);
    }

    /// Counts the end of a job.
    pub(crate) fn count(&self, outcome: &Result<(), EncodeError>) {
        let counter = match outcome {
            Ok(()) => &self.finished,
            Err(EncodeError::Cancelled) => &self.cancelled,
            Err(EncodeError::Expired { .. } | EncodeError::Waited { .. }) => &self.expired,
            Err(EncodeError::Model(_) | EncodeError::NotFinite { .. } | EncodeError::Died(_)) => &self.failed,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(crate) fn snapshot(&self, now: Duration) -> EncoderStats {
        let TimeSplit { prompt, waiting, idle, .. } = self.times.read(now);
        EncoderStats {
            running: self.running.load(Relaxed),
            waiting: self.waiting.load(Relaxed),
            waiting_tokens: self.waiting_tokens.load(Relaxed),
            steps: self.steps.load(Relaxed),
            texts: self.texts.load(Relaxed),
            tokens: self.tokens.load(Relaxed),
            shared_texts: self.shared_texts.load(Relaxed),
            finished: self.finished.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            expired: self.expired.load(Relaxed),
            failed: self.failed.load(Relaxed),
            refused_busy: self.refused_busy.load(Relaxed),
            machine_time: prompt,
            waiting_time: waiting,
            idle_time: idle,
        }
    }
}
