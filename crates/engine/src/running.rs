//! A sequence that runs: its KV blocks, and its rows of the current step.

use std::ops::Range;

use crate::Caller;
use crate::blocks::Table;
use crate::queue::Rank;
use crate::speculate::guess::SpeculationState;

/// What the scheduler needs to know of a sequence.
pub(crate) trait Text {
    /// Tokens it has, prompt and answer so far.
    fn tokens(&self) -> &[u32];
    /// Who asks.
    fn caller(&self) -> Caller;
    /// Where it stands in the queue.
    fn rank(&self) -> Rank;
    /// Whose remembered beginnings it may read.
    fn salt(&self) -> u64;
    /// It was running and lost its blocks.
    fn preempted(&mut self);
    /// So many of its tokens, from the first, are the prompt.
    fn prompt_len(&self) -> usize;
    /// Its tokens, from the first, whose keys and values are those of any text that begins with them: all, or where the model
    /// tells prompts from answers, the prompt.
    fn common(&self) -> &[u32];
    /// So many of its tokens need not be computed.
    fn reused(&mut self, tokens: usize);
    /// Positions before its last token whose logits are wanted; mostly none.
    fn to_score(&self) -> Range<usize>;
    /// Its tokens as far as others may have computed them: up to where logits are wanted.
    fn reusable(&self) -> &[u32] {
        let wanted = self.to_score();
        if wanted.is_empty() { self.common() } else { &self.tokens()[..=wanted.start] }
    }
}

/// A sequence with blocks.
pub(crate) struct Running<S> {
    pub(crate) sequence: S,
    pub(crate) table: Table,
    /// Tokens whose keys and values are in its blocks.
    pub(crate) computed: usize,
    /// Rows of it in the current step, proposed tokens included.
    pub(crate) rows: usize,
    /// Tokens that may come next.
    pub(crate) speculation: SpeculationState,
}

/// What else fits into a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepBudget {
    pub(crate) rows: usize,
    /// Rows whose logits are wanted for the log-probabilities of prompts.
    pub(crate) logits: usize,
}

impl<S: Text> Running<S> {
    /// Tokens not yet computed: 1 when it decodes.
    pub(crate) fn left(&self) -> usize {
        self.sequence.tokens().len() - self.computed
    }

    /// Whether its rows in this step were generated: no step computes both such and rows of the prompt.
    pub(crate) fn is_generated(&self) -> bool {
        self.computed >= self.sequence.prompt_len()
    }

    /// Whether its rows are of a prompt, or of what is computed again.
    pub(crate) fn is_prefill(&self) -> bool {
        self.left() > 1
    }

    /// Positions that the rows of a prompt attend to in this step, in sum.
    pub(crate) fn attended_positions(&self) -> usize {
        if self.is_prefill() { self.rows * self.computed + self.rows * self.rows / 2 } else { 0 }
    }

    /// Whether this step computes the row whose logits choose the next token.
    pub(crate) fn reaches_end(&self) -> bool {
        self.rows > 0 && self.rows == self.left() + self.speculation.proposal.len()
    }

    /// Rows of this step, counted from its first one, whose logits are the log-probabilities of its prompt.
    pub(crate) fn scored_rows(&self) -> Range<usize> {
        let Range { start, end } = self.sequence.to_score();
        let end = end.min(self.computed + self.rows);
        start.saturating_sub(self.computed)..end.saturating_sub(self.computed)
    }

    /// Gives it as many of its next rows as there is room for.
    pub(crate) fn take(&mut self, room: &mut StepBudget) {
        let wanted = self.sequence.to_score();
        let most = if wanted.len() <= room.logits {
            self.left()
        } else {
            // What was computed and not scored does not go past this: see `Text::reusable`.
            (wanted.start + room.logits).saturating_sub(self.computed)
        };
        let alike =
            if self.is_generated() { self.left() } else { self.sequence.prompt_len() - self.computed };
        self.rows = most.min(alike).min(room.rows);
        room.rows -= self.rows;
        room.logits -= self.scored_rows().len();
    }

    /// Takes what others have computed of its text by now.
    pub(crate) fn catch_up(&mut self) {
        let tokens = self.sequence.reusable();
        let reached = self.table.reuse(tokens, self.computed, self.sequence.salt());
        self.sequence.reused(reached - self.computed);
        self.computed = reached;
    }

    /// Lets others read what it has computed.
    pub(crate) fn share(&mut self) {
        let common = self.sequence.common();
        self.table.share(common, self.computed.min(common.len()), self.sequence.salt());
    }

    /// Whether `other` computes in this step what comes next here. The block is then there in the next step.
    pub(crate) fn waits_for(&self, other: &Running<S>, block_tokens: usize) -> bool {
        let end = (self.computed / block_tokens + 1) * block_tokens;
        let (own, others) = (self.sequence.reusable(), other.sequence.common());
        end < own.len()
            && (other.computed..other.computed + other.rows).contains(&(end - 1))
            && self.sequence.salt() == other.sequence.salt()
            && others.get(..end) == Some(&own[..end])
    }
}
