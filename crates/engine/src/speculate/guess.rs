//! The state of a running sequence for speculative decoding.

use super::acceptance::AcceptanceStats;
use super::proposal::Proposal;
use crate::blocks::BlockTable;

/// The state of a running sequence for speculative decoding.
#[derive(Debug, Default)]
pub(crate) struct SpeculationState {
    /// Tokens proposed after the sequence's last token, in this step.
    pub(crate) proposal: Proposal,
    pub(super) acceptance: AcceptanceStats,
    pub(super) draft: DraftState,
}

/// The draft model's state of one sequence.
#[derive(Debug, Default)]
pub(super) struct DraftState {
    pub(super) table: Option<BlockTable>,
    /// Number of tokens whose keys and values are in the blocks.
    pub(super) computed: usize,
    /// Rows of the sequence in the current pass of the draft model.
    pub(super) rows: usize,
    /// Whether the sequence takes part in the current step.
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
