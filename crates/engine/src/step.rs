//! One step: plan, compute, sample, deliver.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

use kernels::NO_STATE;

use crate::blocks::BlockPool;
use crate::completer::{Completer, LogitRows};
use crate::device::EndedTurn;
use crate::device::turns::Urgency;
use crate::inbox::Worker;
use crate::limits::StepBounds;
use crate::queue::QueueRank;
use crate::recurrent::LiveState;
use crate::running::{Running, SchedulerSequence};
use crate::sample::SamplerScratch;
use crate::scheduler::{Plan, Scheduler};
use crate::sequence::{Next, Sequence};
use crate::speculate::Speculator;
use crate::stats::{Counters, StepReport, Watch};
use crate::warming::{Text, Warming};
use crate::{Caller, Error, FinishReason, Forward, Rows, SequenceRows, Vocabulary};

/// Everything the engine's thread owns.
pub(crate) struct EngineCore<F> {
    forward: F,
    scheduler: Scheduler<Sequence>,
    completer: Completer,
    speculator: Speculator,
    /// What to compute while there is nothing else to do.
    warming: Warming,
    max_wait: Duration,
    /// `[rows]`: the tokens of the current step.
    tokens: Vec<u32>,
    /// Rows whose logits are needed, ascending.
    want: Vec<usize>,
}

/// A step's view of its engine's turn on the device.
pub(crate) trait Turn {
    /// Longest that the step should take for the sake of other engines' streams; none if no other engine decodes.
    fn foreign_stall(&self) -> Option<Duration>;
    /// Whether work that somebody waits for has come since the step was planned.
    fn is_wanted(&self) -> bool {
        false
    }
    /// The model has computed: others may compute while tokens are sampled.
    fn computed(&mut self);
}

impl SchedulerSequence for Sequence {
    fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    fn caller(&self) -> Caller {
        self.caller
    }

    fn rank(&self) -> QueueRank {
        QueueRank {
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

    fn shareable_tokens(&self) -> &[u32] {
        if self.prefill_differs { &self.tokens[..self.prompt_len] } else { &self.tokens }
    }

    fn preempted(&mut self) {
        self.preemptions += 1;
    }

    fn reused(&mut self, tokens: usize) {
        Sequence::reused(self, tokens);
    }

    fn unscored_positions(&self) -> Range<usize> {
        Sequence::unscored_positions(self)
    }
}

/// Where a step's rows of prompts begin.
#[derive(Debug, Clone, Copy, Default)]
struct Layout {
    /// Tokens that were proposed.
    proposed: usize,
    /// Rows of what was generated; those after them are of prompts.
    decode_rows: usize,
    /// Rows of logits that belong to those.
    decode_logits: usize,
}

impl<F: Forward> Worker for EngineCore<F> {
    type Work = Sequence;
    type Outcome = Result<FinishReason, Error>;

    fn accept(&mut self, mut sequence: Sequence) {
        sequence.prefill_differs = self.forward.prefill_numerics_differ();
        self.end_spare_work();
        self.warming.forget_beginnings_of(&sequence.tokens, sequence.salt);
        self.scheduler.enqueue(sequence);
    }

    fn is_idle(&self) -> bool {
        self.scheduler.waiting.is_empty() && self.scheduler.running.is_empty()
    }

    fn begin_spare_work(&mut self, now: Duration) -> bool {
        let Some(text) = self.warming.take() else { return false };
        self.scheduler.enqueue(Sequence::warming(text, self.completer.vocabulary(), now));
        true
    }

    /// What is left of it is done later.
    fn end_spare_work(&mut self) {
        let EngineCore { scheduler, warming, .. } = self;
        for sequence in scheduler.sequences().filter(|sequence| sequence.warms && !sequence.is_cancelled()) {
            sequence.cancel_flag().store(true, Release);
            warming.put(Text { tokens: sequence.tokens.clone(), salt: sequence.salt });
        }
    }

    fn watch_turn(&mut self, ended: Option<EndedTurn>) {
        if let Some(EndedTurn { waited, held }) = ended {
            self.completer.watch.turn(waited, held);
        }
    }

    fn end_wait(&mut self, now: Duration) {
        self.completer.meter.end_wait(now, &self.completer.counters.times);
    }

    fn end_one(&mut self, outcome: &Result<FinishReason, Error>, now: Duration) {
        let running = self.scheduler.running.pop().map(|r| r.sequence);
        if let Some(mut sequence) = running.or_else(|| self.scheduler.waiting.pop_front()) {
            self.update_gauges();
            self.completer.end(&mut sequence, outcome.clone(), now);
        }
        if self.is_idle() {
            self.completer.meter.idle(&self.completer.counters.times);
        }
    }
}

impl<F: Forward> EngineCore<F> {
    pub(crate) fn new(
        forward: F,
        vocabulary: Arc<dyn Vocabulary>,
        bounds: StepBounds,
        max_wait: Duration,
        counters: Arc<Counters>,
        watch: Box<dyn Watch>,
        draft: Option<Box<dyn Forward>>,
        prefix_cache: bool,
    ) -> EngineCore<F> {
        let new_pool = if prefix_cache { BlockPool::with_prefix_cache } else { BlockPool::new };
        let (states, room) = (forward.states(), forward.blocks() * forward.block_tokens());
        let pool = new_pool(forward.blocks(), forward.block_tokens()).with_states(states);
        let bounds = bounds.with_states(states);
        let mut scratch = SamplerScratch::new(forward.vocab(), forward.context());
        scratch.mask_worker.predicts = bounds.speculation.tokens > 0;
        EngineCore {
            scheduler: Scheduler::new(pool, bounds),
            completer: Completer::new(vocabulary, counters, watch, scratch),
            speculator: Speculator::new(&bounds, forward.vocab(), draft, forward.predicts()),
            warming: Warming::new(bounds.snapshots.least, if prefix_cache { room } else { 0 }),
            max_wait,
            tokens: Vec::with_capacity(bounds.max_rows()),
            want: Vec::with_capacity(bounds.max_logit_rows()),
            forward,
        }
    }

    #[cfg(test)]
    pub(crate) fn draft_blocks_and_states_used(&self) -> (usize, usize) {
        self.speculator.draft_blocks_and_states_used()
    }

    /// States that sequences and snapshots hold.
    #[cfg(test)]
    pub(crate) fn states_used(&self) -> usize {
        self.scheduler.pool().states_used()
    }

    /// Begins to wait for a turn, if there is something to do: drops what is cancelled or overdue and returns how
    /// urgent the rest is.
    pub(crate) fn begin_wait(&mut self, now: Duration) -> Option<Urgency> {
        self.begin_busy(now);
        self.sweep(now);
        if self.is_idle() {
            self.update_gauges();
            self.end_wait(now);
            self.completer.meter.idle(&self.completer.counters.times);
            return None;
        }
        self.completer.meter.begin_wait(now);
        Some(self.scheduler.urgency())
    }

    /// Whether the only work is for the prefix cache. Its time counts as idle, and it is in no other figure.
    pub(crate) fn only_warms(&self) -> bool {
        let mut sequences = self.scheduler.sequences().peekable();
        sequences.peek().is_some() && sequences.all(|sequence| sequence.warms)
    }

    fn begin_busy(&mut self, now: Duration) {
        if !self.only_warms() {
            self.completer.meter.busy(now, &self.completer.counters.times);
        }
    }

    /// Ends cancelled and overdue sequences, then computes one batch within `turn`. Returns its number of rows.
    pub(crate) fn step(&mut self, clock: &dyn Fn() -> Duration, turn: &mut dyn Turn) -> usize {
        let began = clock();
        self.end_wait(began);
        self.begin_busy(began);
        self.sweep(began);
        let only_warms = self.only_warms();
        let plan = self.scheduler.plan(began, turn.foreign_stall());
        self.completer.counters.preemptions.fetch_add(plan.preempted as u64, Relaxed);
        for running in &mut self.scheduler.running {
            if running.sequence.is_new() && !running.sequence.warms {
                self.completer.counters.leaves_queue(running.sequence.queued_tokens());
                running.sequence.start(began);
            }
        }
        let only_decodes = plan.decode_rows == plan.rows;
        if only_decodes {
            self.speculator.propose(&mut self.forward, &mut self.scheduler.running, clock);
        }
        self.speculator.follow(&mut self.forward, &mut self.scheduler.running);
        let rows = self.scheduler.rows();
        self.update_gauges();
        if rows > 0 {
            let work = self.scheduler.work();
            self.speculator.place_rows(&mut self.scheduler.running);
            let Some(decoded) = self.compute(only_decodes, clock, turn) else {
                self.give_up_spare_work();
                return rows;
            };
            self.speculator.keep_rows(&mut self.scheduler.running);
            let took = clock().saturating_sub(began);
            if plan.rows == rows {
                // The speculator observes steps with proposals.
                self.scheduler.pace.observe(work, took);
                self.scheduler.tell_speed(&self.completer.counters.speed);
            }
            if only_warms {
                self.completer.counters.warmed_tokens.fetch_add(rows as u64, Relaxed);
            } else {
                self.completer.counters.prefill_rows.fetch_add(work.prompt_rows as u64, Relaxed);
                self.completer.counters.steps.fetch_add(1, Relaxed);
                let (Plan { decoding, .. }, prompt_rows) = (plan, work.prompt_rows);
                self.completer.watch.step(&StepReport { rows, decoding, prompt_rows, decoded, took });
            }
        }
        self.update_gauges();
        if self.is_idle() {
            self.completer.meter.idle(&self.completer.counters.times);
        }
        rows
    }

    /// Removes cancelled sequences, and those that waited too long.
    fn sweep(&mut self, now: Duration) {
        let EngineCore { scheduler, completer, max_wait, .. } = self;
        let over = |sequence: &mut Sequence| {
            let outcome = if sequence.is_cancelled() {
                Ok(FinishReason::Cancelled)
            } else if let Some(reason) = sequence.ended() {
                Ok(reason)
            } else if let Some(error) = sequence.expired(now).or_else(|| sequence.overdue(now, *max_wait)) {
                Err(error)
            } else {
                return false;
            };
            completer.end(sequence, outcome, now);
            true
        };
        scheduler.running.retain_mut(|running| {
            let over = over(&mut running.sequence);
            if over {
                running.leave_state();
            }
            !over
        });
        scheduler.waiting.retain_mut(|sequence| !over(sequence));
    }

    /// Computes the planned rows and advances the sequences whose last row was computed. Returns the tokens generated;
    /// none if the step was given up, as all of it was batch work and other work has come.
    fn compute(
        &mut self,
        only_decodes: bool,
        clock: &dyn Fn() -> Duration,
        turn: &mut dyn Turn,
    ) -> Option<usize> {
        let EngineCore { forward, scheduler, completer, speculator, warming, tokens, want, .. } = self;
        let began = clock();
        prepare_states(forward, &mut scheduler.running, &completer.counters);
        let mut sequences = Vec::with_capacity(scheduler.running.len());
        let Layout { proposed, decode_rows, decode_logits } =
            lay_out(&scheduler.running, tokens, want, &mut sequences);
        let vocab = forward.vocab();
        let may_stop = proposed == 0 && may_be_given_up(forward, scheduler, speculator);
        let stop = || may_stop && turn.is_wanted();
        let rows = Rows { tokens, sequences: &sequences, want, decode_rows };
        let result = forward.forward_unless(&rows, &stop);
        drop(sequences);
        let now = clock();
        turn.computed();
        let weights = scheduler.pace.weights(tokens.len());
        completer.meter.split(&mut scheduler.running, weights, now, &completer.counters.times);
        let result = result.transpose()?;
        if only_decodes && result.is_ok() {
            speculator.measured(tokens.len(), proposed, now.saturating_sub(began));
        }
        let mut logits = result.map(|all| LogitRows::split(all, decode_logits, vocab));
        let mut decoded = 0;
        scheduler.running.retain_mut(|running| {
            if running.rows == 0 {
                return true;
            }
            let outcome = match &mut logits {
                Ok((decode, prefill)) => {
                    let logits = if running.is_generated() { decode } else { prefill };
                    completer.complete(running, logits, speculator, now, clock)
                }
                Err(message) => Err(Error::Model(message.clone())),
            };
            let outcome = match outcome {
                Ok(completed) => {
                    decoded += completed.tokens;
                    running.share_blocks();
                    match completed.next {
                        Next::Continue => return true,
                        Next::Finish(reason) => {
                            running.leave_state();
                            remember(warming, &running.sequence);
                            Ok(reason)
                        }
                    }
                }
                Err(error) => Err(error),
            };
            completer.end(&mut running.sequence, outcome, now);
            false
        });
        scheduler.running.iter_mut().for_each(|running| running.take_snapshot(forward));
        Some(decoded)
    }

    /// Ends spare work in the middle of a step, if it is that: its recurrent state is of no use any more, and is not left to
    /// the cache.
    fn give_up_spare_work(&mut self) {
        if let Some(Running { sequence, .. }) =
            self.scheduler.running.pop_if(|running| running.sequence.warms)
        {
            self.warming.put(Text { tokens: sequence.tokens, salt: sequence.salt });
        }
    }

    fn update_gauges(&self) {
        let EngineCore { scheduler, completer, .. } = self;
        let counters = &completer.counters;
        let requeued = scheduler.waiting.iter().filter(|s| !s.is_new()).count();
        let own = scheduler.running.iter().filter(|r| !r.sequence.warms);
        counters.running.store(own.clone().count(), Relaxed);
        counters.requeued.store(requeued, Relaxed);
        let unfinished = own.filter(|r| r.is_prefill()).map(Running::uncomputed).sum::<usize>();
        let preempted =
            scheduler.waiting.iter().filter(|s| !s.is_new()).map(|s| s.tokens.len()).sum::<usize>();
        counters.unfinished_tokens.store(unfinished + preempted, Relaxed);
        let all = || scheduler.sequences().filter(|sequence| !sequence.warms);
        let bounded = all().filter(|s| s.is_bounded()).map(Sequence::answer_left).sum();
        counters.output_tokens.store(bounded, Relaxed);
        counters.unbounded.store(all().filter(|s| !s.is_bounded()).count(), Relaxed);
        counters.kv_blocks_used.store(scheduler.pool().used(), Relaxed);
        counters.kv_blocks_cached.store(scheduler.pool().cached(), Relaxed);
        counters.state_snapshots.store(scheduler.pool().snapshots(), Relaxed);
    }
}

/// Remembers the text of a sequence that has ended, if the next turn would not find its answer in the prefix cache.
fn remember(warming: &mut Warming, sequence: &Sequence) {
    warming.ended(&sequence.tokens, sequence.salt, sequence.lacking());
}

/// Whether the planned step, all of batch work, may be given up and computed again later. Keys and values that were
/// written are written again; a recurrent state would be changed twice, and a draft model be ahead of the text. Spare work
/// is thrown away with both.
fn may_be_given_up<F: Forward>(
    forward: &F,
    scheduler: &Scheduler<Sequence>,
    speculator: &Speculator,
) -> bool {
    scheduler.sequences().all(|sequence| sequence.warms)
        || scheduler.plans_batch_work_only() && !speculator.has_draft() && forward.states() == 0
}

/// Makes recurrent states what they have to be before the planned rows.
fn prepare_states<F: Forward>(forward: &mut F, running: &mut [Running<Sequence>], counters: &Counters) {
    for running in running {
        let spared = running.prepare_state(forward);
        if let Some(spared) = spared.filter(|_| !running.sequence.warms) {
            counters.state_restores.fetch_add(1, Relaxed);
            counters.restored_tokens.fetch_add(spared as u64, Relaxed);
        }
    }
}

/// Lists the planned rows, those of generated tokens first: their tokens, those whose logits are wanted, and whose they
/// are.
fn lay_out<'a>(
    running: &'a [Running<Sequence>],
    tokens: &mut Vec<u32>,
    want: &mut Vec<usize>,
    sequences: &mut Vec<SequenceRows<'a>>,
) -> Layout {
    tokens.clear();
    want.clear();
    let mut layout = Layout::default();
    for generated in [true, false] {
        let part = |running: &&Running<_>| running.rows > 0 && running.is_generated() == generated;
        for running in running.iter().filter(part) {
            let first = tokens.len();
            let computed = running.computed;
            let proposal = running.speculation.proposal.tokens();
            let known = running.rows - proposal.len();
            tokens.extend_from_slice(&running.sequence.tokens[computed..computed + known]);
            tokens.extend_from_slice(proposal);
            layout.proposed += proposal.len();
            want.extend(running.scored_rows().map(|row| first + row));
            if running.reaches_end() {
                want.extend(tokens.len() - 1 - proposal.len()..tokens.len());
            }
            let (rows, blocks) = (first..tokens.len(), running.table.blocks());
            let state = running.state.as_ref().map_or(NO_STATE, LiveState::number);
            sequences.push(SequenceRows::last(rows, computed, blocks).with_state(state));
        }
        if generated {
            (layout.decode_rows, layout.decode_logits) = (tokens.len(), want.len());
        }
    }
    layout
}
