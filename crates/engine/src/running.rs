//! A running sequence: its KV blocks, its recurrent state, and its rows of the current step.

use std::ops::Range;

use crate::blocks::BlockTable;
use crate::queue::QueueRank;
use crate::recurrent::LiveState;
use crate::snapshots::Worth;
use crate::speculate::guess::SpeculationState;
use crate::{Caller, Forward};

/// The scheduler's view of a sequence.
pub(crate) trait SchedulerSequence {
    /// Tokens of prompt and answer so far.
    fn tokens(&self) -> &[u32];
    /// The client and priority that the sequence is computed for.
    fn caller(&self) -> Caller;
    /// Whether somebody waits for the answer.
    fn is_awaited(&self) -> bool {
        self.caller().priority.is_awaited()
    }
    /// The sequence's rank in the queue.
    fn rank(&self) -> QueueRank;
    /// Salt of the prefix cache: only blocks of the same salt are shared.
    fn salt(&self) -> u64;
    /// Records a preemption: the sequence lost its blocks.
    fn preempted(&mut self);
    /// Number of prompt tokens, which come first.
    fn prompt_len(&self) -> usize;
    /// Tokens, from the first, whose KV blocks other sequences with the same prefix may use: all, or the prompt where
    /// the numerics of prefill and decode differ.
    fn shareable_tokens(&self) -> &[u32];
    /// Records that the first `tokens` tokens were found in the prefix cache.
    fn reused(&mut self, tokens: usize);
    /// Positions before the last token whose logits are needed; usually none.
    fn unscored_positions(&self) -> Range<usize>;
    /// The tokens that may come from the prefix cache: those up to the first position whose logits are needed.
    fn reusable(&self) -> &[u32] {
        let wanted = self.unscored_positions();
        if wanted.is_empty() { self.shareable_tokens() } else { &self.tokens()[..=wanted.start] }
    }
}

/// A sequence with KV blocks.
pub(crate) struct Running<S> {
    pub(crate) sequence: S,
    pub(crate) table: BlockTable,
    /// Number of tokens whose keys and values are in the blocks.
    pub(crate) computed: usize,
    /// Rows of the sequence in the current step, including proposed tokens.
    pub(crate) rows: usize,
    /// Proposed tokens, and the acceptance of proposals so far.
    pub(crate) speculation: SpeculationState,
    /// The recurrent state; none for a model without recurrent layers.
    pub(crate) state: Option<LiveState>,
}

/// Rows that still fit into a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepBudget {
    pub(crate) rows: usize,
    /// Rows with logits for the log-probabilities of prompts.
    pub(crate) logits: usize,
}

impl<S: SchedulerSequence> Running<S> {
    /// Tokens not yet computed; while the sequence decodes 1, and those that have to be computed again.
    pub(crate) fn uncomputed(&self) -> usize {
        self.sequence.tokens().len() - self.computed
    }

    /// Tokens of the answer that have to be computed again, as proposed tokens after them were wrong.
    pub(crate) fn replays(&self) -> usize {
        self.state.as_ref().map_or(0, LiveState::replays)
    }

    /// Whether the sequence's rows in this step are decode rows; a step never mixes them with prefill rows.
    pub(crate) fn is_generated(&self) -> bool {
        self.computed >= self.sequence.prompt_len()
    }

    /// Whether the sequence's rows are of a prompt, or recomputed after a preemption.
    pub(crate) fn is_prefill(&self) -> bool {
        self.uncomputed() > 1 + self.replays()
    }

    /// Positions that the rows of a prompt attend to in this step, in sum.
    pub(crate) fn attended_positions(&self) -> usize {
        if self.is_prefill() { self.rows * self.computed + self.rows * self.rows / 2 } else { 0 }
    }

    /// Whether this step computes the row whose logits choose the next token.
    pub(crate) fn reaches_end(&self) -> bool {
        self.rows > 0 && self.rows == self.uncomputed() + self.speculation.proposal.len()
    }

    /// Rows of this step with log-probabilities of the prompt, counted from the sequence's first row.
    pub(crate) fn scored_rows(&self) -> Range<usize> {
        let Range { start, end } = self.sequence.unscored_positions();
        let end = end.min(self.computed + self.rows);
        start.saturating_sub(self.computed)..end.saturating_sub(self.computed)
    }

    /// Plans as many of the sequence's next rows as the budget allows.
    pub(crate) fn plan_rows(&mut self, budget: &mut StepBudget) {
        let wanted = self.sequence.unscored_positions();
        let most = if wanted.len() <= budget.logits {
            self.uncomputed()
        } else {
            // Computed but unscored positions never exceed this: see `SchedulerSequence::reusable`.
            (wanted.start + budget.logits).saturating_sub(self.computed)
        };
        let alike =
            if self.is_generated() { self.uncomputed() } else { self.sequence.prompt_len() - self.computed };
        self.rows = most.min(alike).min(budget.rows).min(self.rows_to_boundary());
        budget.rows -= self.rows;
        budget.logits -= self.scored_rows().len();
    }

    /// Most rows that do not pass a place where a snapshot of the recurrent state is wanted.
    fn rows_to_boundary(&self) -> usize {
        let Some(state) = &self.state else { return usize::MAX };
        let shareable = self.sequence.shareable_tokens().len();
        state.next_boundary(self.computed, self.sequence.prompt_len(), shareable) - self.computed
    }

    /// Most tokens worth proposing for the sake of the recurrent state: none while others have to be computed again, and
    /// none past the end of a block, where a snapshot is taken.
    pub(crate) fn proposal_room(&self) -> usize {
        let Some(state) = &self.state else { return usize::MAX };
        if state.replays() > 0 { 0 } else { state.rows_to_block_end(self.computed) - 1 }
    }

    /// Finds a state to save the recurrent state in before proposed tokens; true if there is one, or no need for it.
    pub(crate) fn find_state_to_save_in(&mut self) -> bool {
        let Some(state) = &mut self.state else { return true };
        self.table.take_state().map(|slot| state.save_in(slot)).is_some()
    }

    /// Makes the recurrent state what it has to be before the planned rows. Returns the tokens that a snapshot spared,
    /// if one was copied.
    pub(crate) fn prepare_state<F: Forward>(&mut self, forward: &mut F) -> Option<usize> {
        self.state.as_mut().filter(|_| self.rows > 0).and_then(|state| state.prepare(forward))
    }

    /// Takes a snapshot of the recurrent state, if one is wanted here.
    pub(crate) fn take_snapshot<F: Forward>(&mut self, forward: &mut F) {
        if let Some(state) = &mut self.state {
            state.take_snapshot(&self.table, self.computed, forward);
        }
    }

    /// Leaves the recurrent state to the prefix cache, if it is of use there as it is. The sequence ends or is preempted.
    pub(crate) fn leave_state(&mut self) {
        if let Some(slot) = self.state.take().and_then(LiveState::into_slot) {
            self.table.keep_state(self.computed, slot, Worth::Kept);
        }
    }

    /// Takes blocks of the sequence's text that other sequences have computed meanwhile.
    pub(crate) fn reuse_cached_blocks(&mut self) {
        let tokens = self.sequence.reusable();
        let found = self.table.reuse(tokens, self.computed, self.sequence.salt());
        let reached = found.computed;
        self.sequence.reused(reached - self.computed);
        if let Some(state) = &mut self.state {
            state.continue_from(found, self.computed);
        }
        self.computed = reached;
    }

    /// Adds the sequence's full blocks to the prefix cache, after a step with rows of it.
    pub(crate) fn share_blocks(&mut self) {
        let common = self.sequence.shareable_tokens();
        self.table.share(common, self.computed.min(common.len()), self.sequence.salt());
        if let Some(state) = &mut self.state {
            state.reached(self.computed, self.sequence.prompt_len());
        }
    }

    /// Whether `other` computes in this step what comes next here. The block is then there in the next step; with
    /// recurrent states, a snapshot will be there some steps later.
    pub(crate) fn waits_for(&self, other: &Running<S>, block_tokens: usize) -> bool {
        match &other.state {
            None => {
                let end = (self.computed / block_tokens + 1) * block_tokens;
                (other.computed..other.computed + other.rows).contains(&(end - 1))
                    && self.has_in_common(other, end)
            }
            Some(state) => {
                let ahead = other.rows > 0 && other.computed >= self.computed;
                ahead && state.branches_after(other.computed).any(|end| self.has_in_common(other, end))
            }
        }
    }

    /// Notes where the text of `other` parts from this one: the state there, once it is computed, serves both.
    pub(crate) fn part_from(&mut self, other: &S, block_tokens: usize) {
        let Some(state) = &mut self.state else { return };
        let (ours, theirs) = (self.sequence.reusable(), other.reusable());
        if self.sequence.salt() != other.salt() {
            return;
        }
        let equal = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
        // At least one token of each is left to be computed.
        let common = equal.min(ours.len() - 1).min(theirs.len() - 1);
        let at = common / block_tokens * block_tokens;
        if at > self.computed {
            state.parts_at(at);
        }
    }

    /// Ends the rows of this step where a snapshot is wanted, if that was not known when they were planned.
    pub(crate) fn stop_at_boundary(&mut self, budget: &mut StepBudget) {
        let rows = self.rows.min(self.rows_to_boundary());
        budget.rows += self.rows - rows;
        self.rows = rows;
    }

    /// Whether the first `end` tokens of both are the same, and more follow here.
    fn has_in_common(&self, other: &Running<S>, end: usize) -> bool {
        let (own, others) = (self.sequence.reusable(), other.sequence.shareable_tokens());
        end < own.len()
            && self.sequence.salt() == other.sequence.salt()
            && others.get(..end) == Some(&own[..end])
    }
}
