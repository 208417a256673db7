//! The state of a running sequence for speculative decoding.

use super::acceptance::AcceptanceStats;
use super::proposal::Proposal;
use crate::Forward;
use crate::blocks::BlockTable;
use crate::states::{StateSlot, StateSlots};

/// The state of a running sequence for speculative decoding.
#[derive(Debug, Default)]
pub(crate) struct SpeculationState {
    /// Tokens proposed after the sequence's last token, in this step.
    pub(crate) proposal: Proposal,
    pub(super) acceptance: AcceptanceStats,
    pub(super) draft: DraftState,
    pub(super) hidden: HiddenRows,
}

/// Where the last step left the hidden states of a sequence's rows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HiddenRows {
    /// The row of the first one in the step.
    pub(super) first_row: usize,
    /// The position of the first one.
    pub(super) first_position: usize,
    /// How many there are, of which each is of a token that the sequence kept; known when the step has ended.
    pub(super) count: usize,
}

impl HiddenRows {
    /// The position after the last one.
    pub(super) fn end(&self) -> usize {
        self.first_position + self.count
    }

    /// The row for a prediction at `position`: its own, or the last one, where the block leaves its own hidden states.
    pub(super) fn row(&self, position: usize) -> usize {
        self.first_row + position.min(self.end().saturating_sub(1)).saturating_sub(self.first_position)
    }
}

/// The state of one sequence in a draft model, or in the block with which the model itself predicts.
#[derive(Debug, Default)]
pub(super) struct DraftState {
    /// Blocks of the draft model; the model's own block uses the sequence's.
    pub(super) table: Option<BlockTable>,
    /// Number of tokens whose keys and values are in the blocks.
    pub(super) computed: usize,
    /// Rows of the sequence in the current pass of the draft model.
    pub(super) rows: usize,
    /// Whether the sequence takes part in the current step.
    pub(super) takes_part: bool,
    /// The recurrent state, if the draft model has such.
    pub(super) recurrent: Option<DraftRecurrent>,
}

/// The recurrent state of one sequence in the draft model.
#[derive(Debug)]
pub(super) struct DraftRecurrent {
    slot: StateSlot,
    /// The state before the first drafted token that was computed, and the tokens that it is after.
    saved: Option<(StateSlot, usize)>,
}

impl DraftState {
    /// Only the first `tokens` tokens are the sequence's own.
    pub(super) fn keep(&mut self, tokens: usize) {
        if let Some(recurrent) = &mut self.recurrent
            && let Some((slot, after)) = recurrent.saved.take()
            && self.computed > tokens
        {
            recurrent.slot = slot;
            self.computed = after;
        }
        self.computed = self.computed.min(tokens);
        if let Some(table) = &mut self.table {
            table.shrink_to(self.computed);
        }
    }

    /// Forgets what was computed, for good: to compute it again would cost more than drafting is likely to bring.
    pub(super) fn give_up(&mut self) {
        (self.table, self.recurrent) = (None, None);
    }

    /// Sees to a recurrent state, cleared if it is new. False if none can be had.
    pub(super) fn find_state<F: Forward + ?Sized>(&mut self, slots: &StateSlots, forward: &mut F) -> bool {
        if slots.total() > 0 && self.recurrent.is_none() {
            let Some(slot) = slots.take() else { return false };
            forward.clear_state(slot.number());
            self.recurrent = Some(DraftRecurrent { slot, saved: None });
        }
        true
    }

    /// Saves the recurrent state before a drafted token is computed. False if there is no state to save it in.
    pub(super) fn save<F: Forward + ?Sized>(&mut self, slots: &StateSlots, forward: &mut F) -> bool {
        let Some(recurrent) = &mut self.recurrent else { return true };
        let Some(slot) = slots.take() else { return false };
        forward.copy_state(recurrent.slot.number(), slot.number());
        recurrent.saved = Some((slot, self.computed));
        true
    }

    /// The recurrent state's number in the draft model.
    pub(super) fn state(&self) -> u32 {
        self.recurrent.as_ref().map_or(kernels::NO_STATE, |recurrent| recurrent.slot.number())
    }
}
