//! One step: plan, compute, choose, tell.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::blocks::Pool;
use crate::sample::Bench;
use crate::scheduler::{Bounds, Length, Scheduler};
use crate::sequence::{Next, Sequence};
use crate::stats::{Counters, StepReport, Watch};
use crate::{Error, FinishReason, Forward, Rows, SequenceRows, Vocabulary};

/// Everything the engine's thread owns.
pub(crate) struct Core<F> {
    forward: F,
    scheduler: Scheduler<Sequence>,
    bench: Bench,
    desk: Desk,
    max_wait: Duration,
    /// `[rows]`: the tokens of the current step.
    tokens: Vec<u32>,
    /// Rows whose logits are wanted, ascending.
    want: Vec<usize>,
}

/// What it takes to end a sequence.
struct Desk {
    vocabulary: Arc<dyn Vocabulary>,
    counters: Arc<Counters>,
    watch: Box<dyn Watch>,
}

impl Desk {
    fn end(&mut self, sequence: &mut Sequence, outcome: Result<FinishReason, Error>, now: Duration) {
        if sequence.is_new() {
            self.counters.leaves_queue(sequence.prompt_len);
        }
        let reason = outcome.as_ref().ok().copied();
        self.counters.count(reason);
        self.watch.finished(reason, &sequence.usage(), &sequence.timings(now));
        match outcome {
            Ok(reason) => sequence.finish(reason, now),
            Err(error) => sequence.fail(error),
        }
    }
}

impl Length for Sequence {
    fn len(&self) -> usize {
        self.tokens.len()
    }

    fn preempted(&mut self) {
        self.preemptions += 1;
    }
}

impl<F: Forward> Core<F> {
    pub(crate) fn new(
        forward: F,
        vocabulary: Arc<dyn Vocabulary>,
        bounds: Bounds,
        max_wait: Duration,
        counters: Arc<Counters>,
        watch: Box<dyn Watch>,
    ) -> Core<F> {
        let pool = Pool::new(forward.blocks(), forward.block_tokens());
        Core {
            bench: Bench::new(forward.vocab(), forward.context()),
            scheduler: Scheduler::new(pool, bounds),
            desk: Desk { vocabulary, counters, watch },
            max_wait,
            tokens: Vec::with_capacity(bounds.max_rows()),
            want: Vec::with_capacity(bounds.max_running),
            forward,
        }
    }

    /// Takes a sequence that the counters know as waiting.
    pub(crate) fn accept(&mut self, sequence: Sequence) {
        self.scheduler.waiting.push_back(sequence);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.scheduler.waiting.is_empty() && self.scheduler.running.is_empty()
    }

    /// Drops what is cancelled or overdue, then computes one batch. Returns how many rows it had.
    pub(crate) fn step(&mut self, clock: &dyn Fn() -> Duration) -> usize {
        let began = clock();
        self.sweep(began);
        let plan = self.scheduler.plan();
        self.desk.counters.preemptions.fetch_add(plan.preempted as u64, Relaxed);
        for running in &mut self.scheduler.running {
            if running.sequence.is_new() {
                self.desk.counters.leaves_queue(running.sequence.prompt_len);
                running.sequence.start(began);
            }
        }
        self.gauge();
        if plan.rows > 0 {
            let decoded = self.compute(clock);
            self.desk.counters.steps.fetch_add(1, Relaxed);
            let took = clock().saturating_sub(began);
            self.desk.watch.step(&StepReport { rows: plan.rows, decoded, took });
        }
        self.gauge();
        plan.rows
    }

    /// Ends one sequence, if there is one, whatever its state.
    pub(crate) fn end_one(&mut self, outcome: &Result<FinishReason, Error>, now: Duration) {
        let running = self.scheduler.running.pop().map(|r| r.sequence);
        if let Some(mut sequence) = running.or_else(|| self.scheduler.waiting.pop_front()) {
            self.gauge();
            self.desk.end(&mut sequence, outcome.clone(), now);
        }
    }

    /// Removes cancelled sequences, and those that waited too long.
    fn sweep(&mut self, now: Duration) {
        let Core { scheduler, desk, max_wait, .. } = self;
        scheduler.running.retain_mut(|running| {
            let cancelled = running.sequence.is_cancelled();
            if cancelled {
                desk.end(&mut running.sequence, Ok(FinishReason::Cancelled), now);
            }
            !cancelled
        });
        scheduler.waiting.retain_mut(|sequence| {
            let outcome = match sequence.overdue(now, *max_wait) {
                _ if sequence.is_cancelled() => Ok(FinishReason::Cancelled),
                Some(error) => Err(error),
                None => return true,
            };
            desk.end(sequence, outcome, now);
            false
        });
    }

    /// Computes the planned rows and advances the sequences that reach their end. Returns how many did.
    fn compute(&mut self, clock: &dyn Fn() -> Duration) -> usize {
        let Core { forward, scheduler, bench, desk, tokens, want, .. } = self;
        tokens.clear();
        want.clear();
        let mut sequences = Vec::with_capacity(scheduler.running.len());
        for running in scheduler.running.iter().filter(|r| r.rows > 0) {
            let first = tokens.len();
            let computed = running.computed;
            tokens.extend_from_slice(&running.sequence.tokens[computed..computed + running.rows]);
            if running.reaches_end() {
                want.push(tokens.len() - 1);
            } else {
                desk.counters.prefill_rows.fetch_add(running.rows as u64, Relaxed);
            }
            let rows = first..tokens.len();
            sequences.push(SequenceRows { rows, first_position: computed, blocks: running.table.blocks() });
        }
        let vocab = forward.vocab();
        let result = forward.forward(&Rows { tokens, sequences: &sequences, want });
        drop(sequences);
        let now = clock();
        let mut logits = result.map(|all| all.chunks_exact(vocab));
        scheduler.running.retain_mut(|running| {
            let rows = std::mem::replace(&mut running.rows, 0);
            if rows == 0 {
                return true;
            }
            let last = running.computed + rows == running.sequence.tokens.len();
            running.computed += rows;
            let row = match &mut logits {
                Ok(_) if !last => return true,
                Ok(rows) => rows.next().ok_or_else(|| Error::Model("fewer logits than rows".into())),
                Err(message) => Err(Error::Model(message.clone())),
            };
            let outcome = row.and_then(|row| desk.advance(&mut running.sequence, row, bench, now));
            match outcome {
                Ok(Next::Continue) => true,
                Ok(Next::Finish(reason)) => {
                    desk.end(&mut running.sequence, Ok(reason), now);
                    false
                }
                Err(error) => {
                    desk.end(&mut running.sequence, Err(error), now);
                    false
                }
            }
        });
        want.len()
    }

    fn gauge(&self) {
        let Core { scheduler, desk, .. } = self;
        let requeued = scheduler.waiting.iter().take_while(|s| !s.is_new()).count();
        desk.counters.running.store(scheduler.running.len(), Relaxed);
        desk.counters.requeued.store(requeued, Relaxed);
        desk.counters.kv_blocks_used.store(scheduler.pool().used(), Relaxed);
    }
}

impl Desk {
    fn advance(
        &mut self,
        sequence: &mut Sequence,
        logits: &[f32],
        bench: &mut Bench,
        now: Duration,
    ) -> Result<Next, Error> {
        let first = sequence.tokens.len() == sequence.prompt_len;
        let next = sequence.advance(logits, self.vocabulary.as_ref(), bench, now)?;
        if first {
            self.counters.prompt_tokens.fetch_add(sequence.prompt_len as u64, Relaxed);
        }
        self.counters.generated_tokens.fetch_add(1, Relaxed);
        Ok(next)
    }
}
