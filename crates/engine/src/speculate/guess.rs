//! What a running sequence keeps for speculation.

use super::acceptance::AcceptanceStats;
use super::proposal::Proposal;
use crate::blocks::BlockTable;

/// What a running sequence keeps for speculation.
#[derive(Debug, Default)]
pub(crate) struct SpeculationState {
    /// Proposed after its last token, in this step.
    pub(crate) proposal: Proposal,
    pub(super) acceptance: AcceptanceStats,
    pub(super) draft: DraftState,
}

/// What the draft model has of one sequence.
#[derive(Debug, Default)]
pub(super) struct DraftState {
    pub(super) table: Option<BlockTable>,
    /// Tokens whose KV cache is in its blocks.
    pub(super) computed: usize,
    /// Rows of it in the current pass of the draft model.
    pub(super) rows: usize,
    /// It takes part in the current step.
    pub(super) takes_part: bool,
}

impl DraftState {
    /// Only the first `tokens` tokens are the sequence's own.
    pub(super) fn keep(&mut self, tokens: usize) {
        self.computed = self.computed.min(tokens);
        if let Some(table) = &mut self.table {
            table.shrink_to(self.computed);
        }
    }
}
