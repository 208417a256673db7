//! A snapshot of the engine that anyone may take at any time, and the hook for what a snapshot cannot show.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::FinishReason;
use crate::speed::SpeedGauges;
use crate::times::{TimeSplit, TimeTotals};

/// Gauges and totals. Each is exact, but they may be read at slightly different times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests being computed.
    pub running: usize,
    /// Requests in the queue, preempted ones included.
    pub waiting: usize,
    /// Prompt tokens of those in the queue that never ran.
    pub waiting_tokens: usize,
    /// Tokens to compute before the next one of each request is sampled, of all requests, as far as there are more than
    /// one of a request.
    pub backlog_tokens: usize,
    /// Tokens that may still be generated for requests with [`Request::max_tokens`](crate::Request::max_tokens).
    pub output_tokens: usize,
    /// Requests without it.
    pub unbounded: usize,
    /// KV blocks in use.
    pub kv_blocks_used: usize,
    /// KV blocks that no request holds and that the prefix cache keeps.
    pub kv_blocks_cached: usize,
    /// KV blocks there are.
    pub kv_blocks_total: usize,
    /// Tokens a block holds.
    pub kv_block_tokens: usize,
    /// Snapshots of recurrent states that the prefix cache keeps.
    pub state_snapshots: usize,
    /// Recurrent states there are, those of running requests included; 0 for a model without recurrent layers.
    pub states_total: usize,
    /// Tokens that one request may have, answer included.
    pub context: usize,
    /// Prompt rows computed, those computed again after a preemption included.
    pub prefill_rows: u64,
    /// Tokens of fully computed prompts.
    pub prompt_tokens: u64,
    /// Prompt tokens found in the prefix cache.
    pub cached_tokens: u64,
    /// Snapshots of recurrent states that requests went on from.
    pub state_restores: u64,
    /// Tokens that those spared: of prompts, and those computed before a preemption.
    pub restored_tokens: u64,
    /// Tokens computed again because a recurrent state was taken back after wrong proposals.
    pub replayed_tokens: u64,
    /// Tokens of prompts and their answers computed while there was nothing else to do, for the prefix cache. In no other
    /// figure, and their time counts as idle.
    pub warmed_tokens: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Steps computed.
    pub steps: u64,
    /// Preemptions: a request lost its blocks to an older one.
    pub preemptions: u64,
    /// Requests ended by a stop.
    pub stopped: u64,
    /// Requests ended by length.
    pub reached_length: u64,
    /// Requests cancelled.
    pub cancelled: u64,
    /// Requests failed.
    pub failed: u64,
    /// Submissions refused because the queue was full.
    pub refused_busy: u64,
    /// Tokens proposed by speculative decoding.
    pub proposed_tokens: u64,
    /// Proposed tokens that the sampler chose.
    pub accepted_tokens: u64,
    /// Time charged to requests for their prompts, up to the last step that ended.
    pub prompt_time: Duration,
    /// Time charged to requests for their answers.
    pub completion_time: Duration,
    /// Time with work, waiting for the device.
    pub waiting_time: Duration,
    /// Time without work. The four times sum to the time since the engine's start, without the current step.
    pub idle_time: Duration,
}

/// Counts of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepReport {
    /// Rows in the batch.
    pub rows: usize,
    /// Number of sequences in the decode phase.
    pub decoding: usize,
    /// Prefill rows. Rows that are neither prefill nor decode were proposed.
    pub prompt_rows: usize,
    /// Generated tokens.
    pub decoded: usize,
    /// Duration of the step.
    pub took: Duration,
}

/// An observer of an engine. Called on the engine's thread, so it must not block.
pub trait Watch: Send {
    /// A step ended.
    fn step(&mut self, _step: &StepReport) {}
    /// A step verified `proposed` tokens of one sequence, of which the first `accepted` were accepted.
    fn verified(&mut self, _proposed: usize, _accepted: usize) {}
    /// A turn on the device ended, for which the engine had waited.
    fn turn(&mut self, _waited: Duration, _held: Duration) {}
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Watch for Unwatched {}

/// The live form of [`Stats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) running: AtomicUsize,
    pub(crate) waiting: AtomicUsize,
    pub(crate) waiting_tokens: AtomicUsize,
    /// Tokens to compute, of requests that have run.
    pub(crate) unfinished_tokens: AtomicUsize,
    pub(crate) output_tokens: AtomicUsize,
    pub(crate) unbounded: AtomicUsize,
    /// Preempted requests in the queue; `waiting` counts those that never ran.
    pub(crate) requeued: AtomicUsize,
    pub(crate) kv_blocks_used: AtomicUsize,
    pub(crate) kv_blocks_cached: AtomicUsize,
    pub(crate) state_snapshots: AtomicUsize,
    pub(crate) prefill_rows: AtomicU64,
    pub(crate) prompt_tokens: AtomicU64,
    pub(crate) cached_tokens: AtomicU64,
    pub(crate) state_restores: AtomicU64,
    pub(crate) restored_tokens: AtomicU64,
    pub(crate) replayed_tokens: AtomicU64,
    pub(crate) warmed_tokens: AtomicU64,
    pub(crate) generated_tokens: AtomicU64,
    pub(crate) steps: AtomicU64,
    pub(crate) preemptions: AtomicU64,
    pub(crate) stopped: AtomicU64,
    pub(crate) reached_length: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) refused_busy: AtomicU64,
    pub(crate) proposed_tokens: AtomicU64,
    pub(crate) accepted_tokens: AtomicU64,
    pub(crate) times: TimeTotals,
    pub(crate) speed: SpeedGauges,
}

impl Counters {
    pub(crate) fn enters_queue(&self, prompt_tokens: usize) {
        self.waiting.fetch_add(1, Relaxed);
        self.waiting_tokens.fetch_add(prompt_tokens, Relaxed);
    }

    pub(crate) fn leaves_queue(&self, prompt_tokens: usize) {
        self.waiting.fetch_sub(1, Relaxed);
        self.waiting_tokens.fetch_sub(prompt_tokens, Relaxed);
    }

    pub(crate) fn count(&self, reason: Option<FinishReason>) {
        let counter = match reason {
            Some(FinishReason::Stop) => &self.stopped,
            Some(FinishReason::Length) => &self.reached_length,
            Some(FinishReason::Cancelled) => &self.cancelled,
            None => &self.failed,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(crate) fn snapshot(
        &self,
        blocks: usize,
        block_tokens: usize,
        states: usize,
        context: usize,
        now: Duration,
    ) -> Stats {
        let TimeSplit { prompt, completion, waiting, idle } = self.times.read(now);
        Stats {
            running: self.running.load(Relaxed),
            waiting: self.waiting.load(Relaxed) + self.requeued.load(Relaxed),
            waiting_tokens: self.waiting_tokens.load(Relaxed),
            backlog_tokens: self.waiting_tokens.load(Relaxed) + self.unfinished_tokens.load(Relaxed),
            output_tokens: self.output_tokens.load(Relaxed),
            unbounded: self.unbounded.load(Relaxed),
            kv_blocks_used: self.kv_blocks_used.load(Relaxed),
            kv_blocks_cached: self.kv_blocks_cached.load(Relaxed),
            kv_blocks_total: blocks,
            kv_block_tokens: block_tokens,
            state_snapshots: self.state_snapshots.load(Relaxed),
            states_total: states,
            context,
            prefill_rows: self.prefill_rows.load(Relaxed),
            prompt_tokens: self.prompt_tokens.load(Relaxed),
            cached_tokens: self.cached_tokens.load(Relaxed),
            state_restores: self.state_restores.load(Relaxed),
            restored_tokens: self.restored_tokens.load(Relaxed),
            replayed_tokens: self.replayed_tokens.load(Relaxed),
            warmed_tokens: self.warmed_tokens.load(Relaxed),
            generated_tokens: self.generated_tokens.load(Relaxed),
            steps: self.steps.load(Relaxed),
            preemptions: self.preemptions.load(Relaxed),
            stopped: self.stopped.load(Relaxed),
            reached_length: self.reached_length.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            failed: self.failed.load(Relaxed),
            refused_busy: self.refused_busy.load(Relaxed),
            proposed_tokens: self.proposed_tokens.load(Relaxed),
            accepted_tokens: self.accepted_tokens.load(Relaxed),
            prompt_time: prompt,
            completion_time: completion,
            waiting_time: waiting,
            idle_time: idle,
        }
    }
}
