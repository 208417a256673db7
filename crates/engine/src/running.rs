//! A running sequence: its KV blocks, and its rows of the current step.

use std::ops::Range;

use crate::Caller;
use crate::blocks::BlockTable;
use crate::queue::QueueRank;
use crate::speculate::guess::SpeculationState;

/// The scheduler's view of a sequence.
pub(crate) trait SchedulerSequence {
    /// Tokens of prompt and answer so far.
    fn tokens(&self) -> &[u32];
    /// The client and priority that the sequence is computed for.
    fn caller(&self) -> Caller;
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
}

/// Rows that still fit into a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepBudget {
    pub(crate) rows: usize,
    /// Rows with logits for the log-probabilities of prompts.
    pub(crate) logits: usize,
}

impl<S: SchedulerSequence> Running<S> {
    /// Tokens not yet computed; 1 while the sequence decodes.
    pub(crate) fn uncomputed(&self) -> usize {
        self.sequence.tokens().len() - self.computed
    }

    /// Whether the sequence's rows in this step are decode rows; a step never mixes them with prefill rows.
    pub(crate) fn is_generated(&self) -> bool {
        self.computed >= self.sequence.prompt_len()
    }

    /// Whether the sequence's rows are of a prompt, or of recomputed tokens.
    pub(crate) fn is_prefill(&self) -> bool {
        self.uncomputed() > 1
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
        self.rows = most.min(alike).min(budget.rows);
        budget.rows -= self.rows;
        budget.logits -= self.scored_rows().len();
    }

    /// Takes blocks of the sequence's text that other sequences have computed meanwhile.
    pub(crate) fn reuse_cached_blocks(&mut self) {
        let tokens = self.sequence.reusable();
        let reached = self.table.reuse(tokens, self.computed, self.sequence.salt());
        self.sequence.reused(reached - self.computed);
        self.computed = reached;
    }

    /// Adds the sequence's full blocks to the prefix cache.
    pub(crate) fn share_blocks(&mut self) {
        let common = self.sequence.shareable_tokens();
        self.table.share(common, self.computed.min(common.len()), self.sequence.salt());
    }

    /// Whether `other` computes in this step what comes next here. The block is then there in the next step.
    pub(crate) fn waits_for(&self, other: &Running<S>, block_tokens: usize) -> bool {
        let end = (self.computed / block_tokens + 1) * block_tokens;
        let (own, others) = (self.sequence.reusable(), other.sequence.shareable_tokens());
        end < own.len()
            && (other.computed..other.computed + other.rows).contains(&(end - 1))
            && self.sequence.salt() == other.sequence.salt()
            && others.get(..end) == Some(&own[..end])
    }
}
