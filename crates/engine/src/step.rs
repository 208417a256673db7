//! One step: plan, compute, choose, tell.

use std::ops::Range;
use std::slice::ChunksExact;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::blocks::Pool;
use crate::meter::Meter;
use crate::queue::Rank;
use crate::sample::Bench;
use crate::scheduler::{Bounds, Plan, Running, Scheduler, Text};
use crate::sequence::{Next, Sequence};
use crate::speculate::{Proposal, Speculator};
use crate::stats::{Counters, StepReport, Watch};
use crate::{Caller, Error, FinishReason, Forward, Rows, SequenceRows, Vocabulary};

/// Everything the engine's thread owns.
pub(crate) struct Core<F> {
    forward: F,
    scheduler: Scheduler<Sequence>,
    bench: Bench,
    desk: Desk,
    speculator: Speculator,
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
    meter: Meter,
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
            Err(error) => sequence.fail(error, now),
        }
    }
}

impl Text for Sequence {
    fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    fn caller(&self) -> Caller {
        self.caller
    }

    fn rank(&self) -> Rank {
        Rank {
            caller: self.caller,
            resumes: self.preemptions > 0,
            tokens: self.tokens.len(),
            answer: self.answer_left(),
            since: self.submitted,
        }
    }

    fn salt(&self) -> u64 {
        self.salt
    }

    fn prompt_len(&self) -> usize {
        self.prompt_len
    }

    fn common(&self) -> &[u32] {
        if self.apart { &self.tokens[..self.prompt_len] } else { &self.tokens }
    }

    fn preempted(&mut self) {
        self.preemptions += 1;
    }

    fn reused(&mut self, tokens: usize) {
        Sequence::reused(self, tokens);
    }

    fn to_score(&self) -> Range<usize> {
        Sequence::to_score(self)
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
        draft: Option<Box<dyn Forward>>,
        prefix_cache: bool,
    ) -> Core<F> {
        let new_pool = if prefix_cache { Pool::remembering } else { Pool::new };
        let pool = new_pool(forward.blocks(), forward.block_tokens());
        let mut bench = Bench::new(forward.vocab(), forward.context());
        bench.helper.foresees = bounds.speculation.tokens > 0;
        Core {
            bench,
            scheduler: Scheduler::new(pool, bounds),
            desk: Desk { vocabulary, counters, watch, meter: Meter::default() },
            speculator: Speculator::new(&bounds, forward.vocab(), draft),
            max_wait,
            tokens: Vec::with_capacity(bounds.max_rows()),
            want: Vec::with_capacity(bounds.max_logit_rows()),
            forward,
        }
    }

    /// Takes a sequence that the counters know as waiting.
    pub(crate) fn accept(&mut self, mut sequence: Sequence) {
        sequence.apart = self.forward.tells_prompts();
        self.scheduler.waiting.push_back(sequence);
    }

    #[cfg(test)]
    pub(crate) fn draft_blocks_used(&self) -> usize {
        self.speculator.draft_blocks_used()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.scheduler.waiting.is_empty() && self.scheduler.running.is_empty()
    }

    /// Drops what is cancelled or overdue, then computes one batch. Returns how many rows it had.
    pub(crate) fn step(&mut self, clock: &dyn Fn() -> Duration) -> usize {
        let began = clock();
        self.desk.meter.wake(began, &self.desk.counters.times);
        self.sweep(began);
        let plan = self.scheduler.plan(began);
        self.desk.counters.preemptions.fetch_add(plan.preempted as u64, Relaxed);
        for running in &mut self.scheduler.running {
            if running.sequence.is_new() {
                self.desk.counters.leaves_queue(running.sequence.prompt_len);
                running.sequence.start(began);
            }
        }
        let only_decodes = plan.decoding == plan.rows;
        if only_decodes {
            self.speculator.propose(&mut self.scheduler.running, clock);
        }
        let rows = self.scheduler.rows();
        self.gauge();
        if rows > 0 {
            let work = self.scheduler.work();
            self.desk.counters.prefill_rows.fetch_add(work.prompt_rows as u64, Relaxed);
            let decoded = self.compute(only_decodes, clock);
            self.desk.counters.steps.fetch_add(1, Relaxed);
            let took = clock().saturating_sub(began);
            if plan.rows == rows {
                // What verified proposals is the speculator's to learn from.
                self.scheduler.pace.observe(work, took);
            }
            let Plan { decoding, .. } = plan;
            let prompt_rows = work.prompt_rows;
            self.desk.watch.step(&StepReport { rows, decoding, prompt_rows, decoded, took });
        }
        self.gauge();
        if self.is_idle() {
            self.desk.meter.rest(&self.desk.counters.times);
        }
        rows
    }

    /// Ends one sequence, if there is one, whatever its state.
    pub(crate) fn end_one(&mut self, outcome: &Result<FinishReason, Error>, now: Duration) {
        let running = self.scheduler.running.pop().map(|r| r.sequence);
        if let Some(mut sequence) = running.or_else(|| self.scheduler.waiting.pop_front()) {
            self.gauge();
            self.desk.end(&mut sequence, outcome.clone(), now);
        }
        if self.is_idle() {
            self.desk.meter.rest(&self.desk.counters.times);
        }
    }

    /// Removes cancelled sequences, and those that waited too long.
    fn sweep(&mut self, now: Duration) {
        let Core { scheduler, desk, max_wait, .. } = self;
        let mut over = |sequence: &mut Sequence| {
            let outcome = if sequence.is_cancelled() {
                Ok(FinishReason::Cancelled)
            } else if let Some(error) = sequence.expired(now).or_else(|| sequence.overdue(now, *max_wait)) {
                Err(error)
            } else {
                return false;
            };
            desk.end(sequence, outcome, now);
            true
        };
        scheduler.running.retain_mut(|running| !over(&mut running.sequence));
        scheduler.waiting.retain_mut(|sequence| !over(sequence));
    }

    /// Computes the planned rows and advances the sequences that reach their end. Returns how many tokens they got.
    fn compute(&mut self, only_decodes: bool, clock: &dyn Fn() -> Duration) -> usize {
        let Core { forward, scheduler, bench, desk, speculator, tokens, want, .. } = self;
        tokens.clear();
        want.clear();
        let mut sequences = Vec::with_capacity(scheduler.running.len());
        let (mut proposed, mut answers, mut chosen) = (0, 0, 0);
        for answering in [true, false] {
            let part = |running: &&Running<_>| running.rows > 0 && running.answers() == answering;
            for running in scheduler.running.iter().filter(part) {
                let first = tokens.len();
                let computed = running.computed;
                let proposal = running.guess.proposal.tokens();
                let known = running.rows - proposal.len();
                tokens.extend_from_slice(&running.sequence.tokens[computed..computed + known]);
                tokens.extend_from_slice(proposal);
                proposed += proposal.len();
                want.extend(running.scored_rows().map(|row| first + row));
                if running.reaches_end() {
                    want.extend(tokens.len() - 1 - proposal.len()..tokens.len());
                }
                let rows = first..tokens.len();
                sequences.push(SequenceRows {
                    rows,
                    first_position: computed,
                    blocks: running.table.blocks(),
                });
            }
            if answering {
                (answers, chosen) = (tokens.len(), want.len());
            }
        }
        let vocab = forward.vocab();
        let began = clock();
        let result = forward.forward(&Rows { tokens, sequences: &sequences, want, answers });
        drop(sequences);
        let now = clock();
        if only_decodes && result.is_ok() {
            speculator.measured(tokens.len(), proposed, now.saturating_sub(began));
        }
        let weights = scheduler.pace.weights(tokens.len());
        desk.meter.split(&mut scheduler.running, weights, now, &desk.counters);
        let mut logits = result.map(|all| {
            let (answers, prompts) = all.split_at(all.len().min(chosen * vocab));
            (answers.chunks_exact(vocab), prompts.chunks_exact(vocab))
        });
        let mut decoded = 0;
        scheduler.running.retain_mut(|running| {
            if running.rows == 0 {
                return true;
            }
            let outcome = match &mut logits {
                Ok((answers, prompts)) => {
                    let logits = if running.answers() { answers } else { prompts };
                    desk.take(running, logits, speculator, bench, clock, now)
                }
                Err(message) => Err(Error::Model(message.clone())),
            };
            let outcome = match outcome {
                Ok((count, next)) => {
                    decoded += count;
                    running.share();
                    match next {
                        Next::Continue => return true,
                        Next::Finish(reason) => Ok(reason),
                    }
                }
                Err(error) => Err(error),
            };
            desk.end(&mut running.sequence, outcome, now);
            false
        });
        decoded
    }

    fn gauge(&self) {
        let Core { scheduler, desk, .. } = self;
        let requeued = scheduler.waiting.iter().filter(|s| !s.is_new()).count();
        desk.counters.running.store(scheduler.running.len(), Relaxed);
        desk.counters.requeued.store(requeued, Relaxed);
        desk.counters.kv_blocks_used.store(scheduler.pool().used(), Relaxed);
        desk.counters.kv_blocks_remembered.store(scheduler.pool().remembered(), Relaxed);
    }
}

impl Desk {
    /// Takes a sequence's part of `logits`: of the rows that score its prompt, and of those that choose what comes next.
    /// Returns how many tokens it got.
    fn take(
        &mut self,
        running: &mut Running<Sequence>,
        logits: &mut ChunksExact<'_, f32>,
        speculator: &mut Speculator,
        bench: &mut Bench,
        clock: &dyn Fn() -> Duration,
        now: Duration,
    ) -> Result<(usize, Next), Error> {
        let (scored, reaches_end) = (running.scored_rows().len(), running.reaches_end());
        let choosing = if reaches_end { 1 + running.guess.proposal.len() } else { 0 };
        let rows = std::mem::take(&mut running.rows);
        let mut own = logits.by_ref().take(scored + choosing);
        let mut outcome = Ok((0, Next::Continue));
        if scored > 0 {
            outcome = running.sequence.score(own.by_ref().take(scored)).map(|()| (0, Next::Continue));
            self.meter.choose(&mut running.sequence, clock(), &self.counters);
        }
        if !reaches_end {
            running.computed += rows;
        } else if outcome.is_ok() {
            outcome = self.advance(running, &mut own, speculator, bench, now);
            self.meter.choose(&mut running.sequence, clock(), &self.counters);
        }
        // Rows after a wrong guess or an error are nobody's.
        own.for_each(drop);
        outcome
    }

    /// Chooses tokens from the logits of a sequence's last row and of its proposed ones, as far as these were what it
    /// chose. Returns how many tokens it got.
    fn advance<'a>(
        &mut self,
        running: &mut Running<Sequence>,
        rows: &mut impl Iterator<Item = &'a [f32]>,
        speculator: &mut Speculator,
        bench: &mut Bench,
        now: Duration,
    ) -> Result<(usize, Next), Error> {
        let Running { sequence, table, computed, guess, .. } = running;
        let before = sequence.tokens.len();
        let proposal = std::mem::take(&mut guess.proposal);
        let (accepted, next) = self.follow(sequence, &proposal, rows, bench, now)?;
        *computed = sequence.tokens.len() - 1;
        speculator.verified(guess, &proposal, accepted, sequence.tokens.len());
        if !proposal.is_empty() {
            table.shrink_to(*computed);
            self.counters.proposed_tokens.fetch_add(proposal.len() as u64, Relaxed);
            self.counters.accepted_tokens.fetch_add(accepted as u64, Relaxed);
            self.watch.verified(proposal.len(), accepted);
        }
        Ok((sequence.tokens.len() - before, next))
    }

    /// Chooses a token from each row until one is not what was proposed, or ends the answer. Returns how many of those
    /// chosen were proposed.
    fn follow<'a>(
        &mut self,
        sequence: &mut Sequence,
        proposal: &Proposal,
        rows: &mut impl Iterator<Item = &'a [f32]>,
        bench: &mut Bench,
        now: Duration,
    ) -> Result<(usize, Next), Error> {
        let mut accepted = 0;
        loop {
            let row = rows.next().ok_or_else(|| Error::Model("fewer logits than rows".into()))?;
            let next = self.choose(sequence, row, bench, now)?;
            let right = proposal.tokens().get(accepted) == sequence.tokens.last();
            accepted += usize::from(right);
            if !right || next != Next::Continue {
                return Ok((accepted, next));
            }
        }
    }

    fn choose(
        &mut self,
        sequence: &mut Sequence,
        logits: &[f32],
        bench: &mut Bench,
        now: Duration,
    ) -> Result<Next, Error> {
        if sequence.is_unanswered() {
            self.counters.prompt_tokens.fetch_add(sequence.prompt_len as u64, Relaxed);
            self.counters.cached_tokens.fetch_add(sequence.usage().cached_tokens as u64, Relaxed);
            if let over @ Next::Finish(_) = sequence.read() {
                return Ok(over);
            }
        }
        let next = sequence.advance(logits, self.vocabulary.as_ref(), bench, now)?;
        self.counters.generated_tokens.fetch_add(1, Relaxed);
        Ok(next)
    }
}
