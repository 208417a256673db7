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
