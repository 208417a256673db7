//! The scheduler: which rows the next step computes.
//!
//! Continuous batching: each step takes one row of every decoding sequence, then prefill chunks, as many rows as fit
//! into the longest stall ([`Pace`]), then admits from the queue ([`FairShares`]). Prompts are prefilled one after the
//! other, the shortest first, with ageing: the first answers begin sooner than if all prompts shared the steps, and an
//! equal prefix is computed only once.
//!
//! KV blocks are allocated as a sequence grows. When none is free, the last running sequence, by priority and then by
//! age, is preempted: it loses its blocks and returns to the queue, to be recomputed with its generated tokens (as far
//! as its blocks are not cached). The first sequence always proceeds, and no sequence is longer than the pool, so this
//! ends. Recomputing changes no text, as a row's result does not depend on its batch.
//!
//! A sequence of a model with recurrent layers also has a state ([`LiveState`]), which each row changes. Its cached blocks
//! are of use as far as a snapshot of the state is known, so its rows end where a snapshot is wanted: where a prompt ends,
//! where texts part, at intervals.
//!
//! Batch work rests while somebody waits for other work ([`Rest`]). What rests leaves its slot to others: up to
//! `max_running` more sequences start beside it, and if they find no memory, it is preempted.
//!
//! A prompt with log-probabilities is prefilled in chunks of at most [`crate::limits::PROMPT_LOGIT_ROWS`] rows, as each
//! row has logits. Cached blocks of such a prompt are not used before its logits were computed.
//!
//! Plain data in, plain data out: no clock (the time is an argument), no randomness, no model.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Priority;
use crate::blocks::{BlockPool, BlockTable, Reuse};
use crate::device::turns::Urgency;
use crate::limits::StepBounds;
use crate::pace::{Pace, StepWork};
use crate::queue::{AGING, FairShares, QueueRank};
use crate::recurrent::{LiveState, SnapshotRules};
use crate::rest::Rest;
use crate::running::{Running, SchedulerSequence, StepBudget};
use crate::speculate::guess::SpeculationState;
use crate::speed::SpeedGauges;

/// The queue and the running sequences.
pub(crate) struct Scheduler<S> {
    pub(crate) waiting: VecDeque<S>,
    /// Running sequences by priority, then in order of admission: the first is never preempted.
    pub(crate) running: Vec<Running<S>>,
    shares: FairShares,
    pub(crate) pace: Pace,
    pool: BlockPool,
    bounds: StepBounds,
    rules: SnapshotRules,
    rest: Rest,
}

/// Totals of a planned step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Rows in all; 0 only if there is nothing to do.
    pub(crate) rows: usize,
    /// Sequences with decode rows.
    pub(crate) decoding: usize,
    /// Decode rows among `rows`: one of each of them, and those computed again.
    pub(crate) decode_rows: usize,
    /// Sequences that lost their blocks and went back to the queue.
    pub(crate) preempted: usize,
}

/// Most waiting sequences whose texts are compared with that of one which starts.
const MAX_COMPARED: usize = 16;

/// All KV blocks or recurrent states are in use, or about to be.
struct NoMemory;

/// What a waiting sequence needs in order to run.
struct Reserved {
    table: BlockTable,
    /// Tokens whose keys and values were found in the prefix cache.
    computed: usize,
    state: Option<LiveState>,
}

impl<S: SchedulerSequence> Scheduler<S> {
    pub(crate) fn new(pool: BlockPool, bounds: StepBounds) -> Scheduler<S> {
        Scheduler {
            waiting: VecDeque::new(),
            running: Vec::with_capacity(bounds.max_sequences()),
            shares: FairShares::default(),
            pace: Pace::new(bounds.max_rows(), bounds.max_stall),
            rules: SnapshotRules { spacing: bounds.snapshots, block_tokens: pool.block_tokens() },
            pool,
            bounds,
            rest: Rest::default(),
        }
    }

    pub(crate) fn pool(&self) -> &BlockPool {
        &self.pool
    }

    /// All sequences, those that run first.
    pub(crate) fn sequences(&self) -> impl Iterator<Item = &S> {
        self.running.iter().map(|running| &running.sequence).chain(&self.waiting)
    }

    /// Puts a sequence into the queue.
    pub(crate) fn enqueue(&mut self, sequence: S) {
        let block_tokens = self.pool.block_tokens();
        for running in self.running.iter_mut().filter(|running| running.is_prefill()) {
            running.part_from(&sequence, block_tokens);
        }
        self.waiting.push_back(sequence);
    }

    /// Sets `rows` of every running sequence for the next step and allocates their blocks. `foreign_stall` is the
    /// longest stall of other engines' streams on the device; none without such streams.
    pub(crate) fn plan(&mut self, now: Duration, foreign_stall: Option<Duration>) -> Plan {
        self.rest.begin_step(self.has_awaited());
        let mut plan = self.plan_rows(now, foreign_stall);
        if plan.rows == 0 && self.rest.end() {
            let preempted = plan.preempted;
            plan = self.plan_rows(now, foreign_stall);
            plan.preempted += preempted;
        }
        plan
    }

    /// Plans a step, in which batch work rests or not.
    fn plan_rows(&mut self, now: Duration, foreign_stall: Option<Duration>) -> Plan {
        for running in &mut self.running {
            running.rows = 0;
        }
        let mut plan = Plan::default();
        plan.decoding = self.plan_decode(&mut plan.preempted);
        plan.decode_rows = self.rows();
        let budget = self.plan_prefill(plan.decode_rows, now, foreign_stall);
        self.admit(budget, now, &mut plan.preempted);
        plan.rows = self.rows();
        plan
    }

    /// Rows of the planned step.
    pub(crate) fn rows(&self) -> usize {
        self.running.iter().map(|r| r.rows).sum()
    }

    /// Whether all rows of the planned step are of batch work.
    pub(crate) fn plans_batch_work_only(&self) -> bool {
        !self.running.iter().any(|r| r.rows > 0 && r.sequence.is_awaited())
    }

    /// The work of the planned step.
    pub(crate) fn work(&self) -> StepWork {
        let mut work = StepWork::default();
        for running in self.running.iter().filter(|r| r.rows > 0) {
            work.rows += running.rows;
            work.attended_positions += running.attended_positions() as u64;
            if running.is_prefill() {
                work.prompt_rows += running.rows;
            }
        }
        work
    }

    /// One row of each that decodes, and what it has to compute again, the first ones first; preempts from the other end
    /// for blocks.
    fn plan_decode(&mut self, preempted: &mut usize) -> usize {
        let (mut i, mut decoding) = (0, 0);
        let mut replays_left = self.bounds.speculation.max_rows();
        while i < self.running.len() {
            let running = &self.running[i];
            let (rows, replays) = (running.uncomputed(), running.replays());
            let plans = !running.is_prefill() && replays <= replays_left && !self.rests(&running.sequence);
            if plans && self.make_room(i, rows, preempted) {
                self.running[i].rows = rows;
                replays_left -= replays;
                decoding += 1;
            }
            i += 1;
        }
        decoding
    }

    /// Gives rows to prompts; returns the budget that is left.
    fn plan_prefill(
        &mut self,
        decoding: usize,
        now: Duration,
        foreign_stall: Option<Duration>,
    ) -> StepBudget {
        let block_tokens = self.pool.block_tokens();
        let reads = |running: &Running<S>| running.is_prefill() && !self.rests(&running.sequence);
        let mut order: Vec<usize> = (0..self.running.len()).filter(|i| reads(&self.running[*i])).collect();
        for i in &order {
            self.running[*i].reuse_cached_blocks();
        }
        let urgency = |i: &usize| {
            let QueueRank { since, caller, .. } = self.running[*i].sequence.rank();
            let waited = now.saturating_sub(since).as_secs_f32();
            self.seconds(self.running[*i].uncomputed()) + caller.priority.prefill_delay() - AGING * waited
        };
        order.sort_by(|a, b| urgency(a).total_cmp(&urgency(b)));
        let depth = order.first().map_or(0, |i| self.running[*i].computed);
        let rows = self.budget(decoding, depth, foreign_stall);
        let mut budget = StepBudget { rows, logits: self.bounds.prompt_logits };
        for at in 0..order.len() {
            let running = &self.running[order[at]];
            let mut before = order[..at].iter().map(|i| &self.running[*i]);
            if budget.rows == 0 || before.any(|other| running.waits_for(other, block_tokens)) {
                continue;
            }
            // Blocks for all of the prompt were taken when it was admitted.
            self.running[order[at]].plan_rows(&mut budget);
        }
        budget
    }

    /// Prompt rows for a step that decodes `decoding` rows.
    fn budget(&mut self, decoding: usize, depth: usize, foreign_stall: Option<Duration>) -> usize {
        if decoding == 0 && foreign_stall.is_none() {
            return self.bounds.prefill_chunk;
        }
        let most = self.bounds.prefill_chunk.min(self.bounds.max_rows() - decoding);
        self.pace.prompt_rows(decoding, depth, foreign_stall).min(most)
    }

    /// Urgency of the most urgent work.
    pub(crate) fn urgency(&self) -> Urgency {
        if self.running.iter().any(|r| r.sequence.is_awaited() && !r.is_prefill()) {
            Urgency::Decode
        } else if self.has_awaited() {
            Urgency::Prompt
        } else {
            Urgency::Batch
        }
    }

    /// Whether there is work that somebody waits for.
    fn has_awaited(&self) -> bool {
        self.running.iter().any(|r| r.sequence.is_awaited()) || self.waiting.iter().any(S::is_awaited)
    }

    /// Tells how fast steps are.
    pub(crate) fn tell_speed(&self, gauges: &SpeedGauges) {
        gauges.store(&self.pace, self.bounds.prefill_chunk);
    }

    fn seconds(&self, tokens: usize) -> f32 {
        self.pace.prefill_seconds(tokens, self.bounds.prefill_chunk).unwrap_or(0.0)
    }

    /// Blocks for `rows` more rows of the i-th, at the cost of those behind it. False if it was the last itself and
    /// no block is free: then it waits, with its blocks, for another to end.
    fn make_room(&mut self, i: usize, rows: usize, preempted: &mut usize) -> bool {
        loop {
            let running = &mut self.running[i];
            if running.table.grow_to(running.computed + rows).is_ok() {
                return true;
            }
            if self.running.len() - 1 == i {
                return false;
            }
            self.preempt_last(preempted);
        }
    }

    fn preempt_last(&mut self, preempted: &mut usize) {
        if let Some(mut running) = self.running.pop() {
            running.leave_state();
            let Running { mut sequence, table, .. } = running;
            drop(table);
            sequence.preempted();
            self.waiting.push_back(sequence);
            *preempted += 1;
        }
    }

    /// Preempts the last sequence in favour of one that somebody waits for, if it is batch work that rests. False if it is
    /// not, or was preempted before: so each ends at last.
    fn yield_last(&mut self, preempted: &mut usize) -> bool {
        let yields = |r: &Running<S>| self.rests(&r.sequence) && !r.sequence.rank().resumes;
        let yields = self.running.last().is_some_and(yields);
        if yields {
            self.preempt_last(preempted);
        }
        yields
    }

    /// Index of the waiting sequence that comes next.
    fn next(&mut self, now: Duration) -> Option<usize> {
        let (pace, chunk) = (&self.pace, self.bounds.prefill_chunk);
        let seconds = |tokens| pace.prefill_seconds(tokens, chunk).unwrap_or(0.0);
        let full = self.running.len() >= self.bounds.max_running;
        let least = if full || self.rest.is_on() { Priority::Default } else { Priority::Batch };
        self.shares.next(&self.waiting, SchedulerSequence::rank, least, now, seconds)
    }

    /// Whether the sequence gets no rows in this step, as it is batch work that rests.
    fn rests(&self, sequence: &S) -> bool {
        self.rest.is_on() && !sequence.is_awaited()
    }

    /// Starts waiting sequences while there are rows, slots and memory. If there are rows but no memory for work that
    /// somebody waits for, not even what resting batch work leaves, batch work has to end first.
    fn admit(&mut self, mut budget: StepBudget, now: Duration, preempted: &mut usize) {
        let mut crowded = false;
        while budget.rows > 0 && self.awaited_running() < self.bounds.max_running {
            let Some(at) = self.next(now) else { break };
            match self.reserve(at) {
                Ok(reserved) => self.start(at, reserved, &mut budget),
                Err(NoMemory) if self.waiting[at].is_awaited() && self.yield_last(preempted) => {}
                Err(NoMemory) => {
                    crowded = self.waiting.iter().any(S::is_awaited);
                    break;
                }
            }
        }
        self.rest.set_crowded(crowded);
    }

    /// Running sequences that somebody waits for.
    fn awaited_running(&self) -> usize {
        self.running.iter().filter(|r| r.sequence.is_awaited()).count()
    }

    /// Blocks for all tokens of a waiting sequence, and a state if it needs one. Leaves one more block for each running
    /// sequence, so that new ones do not take the last blocks.
    fn reserve(&self, at: usize) -> Result<Reserved, NoMemory> {
        let next = &self.waiting[at];
        let tokens = next.tokens().len();
        let mut table = self.pool.table();
        let found = table.reuse(next.reusable(), 0, next.salt());
        let needed = self.pool.needed(tokens + 1) - table.blocks().len();
        let kept = self.running.len();
        if !self.running.is_empty() && needed + kept > self.pool.free() {
            return Err(NoMemory);
        }
        let computed = found.computed;
        table.grow_to(tokens).map_err(|_| NoMemory)?;
        let state = self.live_state(&table, found)?;
        Ok(Reserved { table, computed, state })
    }

    /// Starts a waiting sequence: plans its first rows, unless another computes in this step what it needs, and puts it
    /// into its place.
    fn start(&mut self, at: usize, reserved: Reserved, budget: &mut StepBudget) {
        let Some(mut sequence) = self.waiting.remove(at) else { return };
        self.shares.charge(&sequence.rank());
        let Reserved { table, computed, state } = reserved;
        sequence.reused(computed);
        let speculation = SpeculationState::default();
        let mut admitted = Running { sequence, table, computed, rows: 0, speculation, state };
        let block_tokens = self.pool.block_tokens();
        if admitted.state.is_some() {
            for other in self.running.iter_mut().filter(|other| other.is_prefill()) {
                admitted.part_from(&other.sequence, block_tokens);
                other.part_from(&admitted.sequence, block_tokens);
                other.stop_at_boundary(budget);
            }
            let next = self.waiting.iter().take(MAX_COMPARED);
            next.for_each(|waiting| admitted.part_from(waiting, block_tokens));
        }
        if !self.running.iter().any(|other| admitted.waits_for(other, block_tokens)) {
            admitted.plan_rows(budget);
        }
        let priority = admitted.sequence.caller().priority;
        let place = self.running.partition_point(|r| r.sequence.caller().priority <= priority);
        self.running.insert(place, admitted);
    }

    /// A recurrent state for a sequence with these blocks, if the model has such states.
    fn live_state(&self, table: &BlockTable, mut found: Reuse) -> Result<Option<LiveState>, NoMemory> {
        if self.pool.states() == 0 {
            return Ok(None);
        }
        let rules = Some(self.rules).filter(|_| self.pool.has_prefix_cache());
        if let Some(slot) = table.take_state() {
            let mut state = LiveState::new(slot, rules);
            state.continue_from(found, 0);
            return Ok(Some(state));
        }
        // The only state that can be had may be the snapshot itself.
        let computed = found.computed;
        found.state = None;
        let slot = table.take_snapshot(computed).filter(|slot| !slot.is_shared()).ok_or(NoMemory)?;
        Ok(Some(LiveState::taken_over(slot, computed, rules)))
    }
}
