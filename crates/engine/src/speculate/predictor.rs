//! The model's own block that predicts the token after the next (multi-token prediction), as a draft: greedy, with keys
//! and values in the sequence's own KV blocks.
//!
//! The block sees a position's hidden state and the token after it, so a step's rows pass through it when that token is
//! chosen: before the next step, whether anything is proposed or not. So its attention covers prompt and answer, and blocks
//! of the prefix cache have its part. For a second proposed token and those after it the block goes on from its own hidden
//! states; what it wrote there is overwritten when the model has verified them.

use std::time::Duration;

use kernels::NO_STATE;

use super::acceptance::AcceptanceStats;
use super::drafting::{DraftCosts, Verifier, goes_on, push_best};
use super::guess::HiddenRows;
use crate::limits::StepBounds;
use crate::recurrent::LiveState;
use crate::running::Running;
use crate::sequence::Sequence;
use crate::{Forward, Rows, SequenceRows};

/// Most rows of a pass that is computed as answers are, not as prompts.
const MAX_DECODE_ROWS: usize = 32;

/// The block with its measured costs.
pub(super) struct Predictor {
    costs: DraftCosts,
    vocab: usize,
    /// Whether the last step's rows have not passed through the block yet.
    pending: bool,
    /// Whether the block failed once; it is not used any more then.
    failed: bool,
    tokens: Vec<u32>,
    from: Vec<usize>,
    want: Vec<usize>,
}

impl Predictor {
    /// The block of a model of `vocab` tokens, for steps within `bounds`.
    pub(super) fn new(bounds: &StepBounds, vocab: usize) -> Predictor {
        let rows = bounds.max_rows();
        Predictor {
            costs: DraftCosts::new(bounds.max_sequences()),
            vocab,
            pending: false,
            failed: false,
            tokens: Vec::with_capacity(rows),
            from: Vec::with_capacity(rows),
            want: Vec::with_capacity(bounds.max_sequences()),
        }
    }

    /// Notes where each sequence's rows are in the planned step: those of what was generated come first.
    pub(super) fn place_rows(&mut self, running: &mut [Running<Sequence>]) {
        self.pending = false;
        let mut first_row = 0;
        for generated in [true, false] {
            for running in running.iter_mut().filter(|r| r.is_generated() == generated) {
                let first_position = running.computed;
                running.speculation.hidden = HiddenRows { first_row, first_position, count: 0 };
                first_row += running.rows;
            }
        }
    }

    /// Notes which rows of the step that ended are of tokens that their sequence kept.
    pub(super) fn keep_rows(&mut self, running: &mut [Running<Sequence>]) {
        for running in running.iter_mut() {
            let known = running.computed.min(running.sequence.tokens.len() - 1);
            let hidden = &mut running.speculation.hidden;
            hidden.count = known.saturating_sub(hidden.first_position);
        }
        self.pending = true;
    }

    /// Takes the last step's rows through the block, if that was not done.
    pub(super) fn follow(&mut self, forward: &mut dyn Forward, running: &mut [Running<Sequence>]) {
        if !self.pending || self.failed {
            return;
        }
        for running in running.iter_mut() {
            running.speculation.draft.takes_part = false;
            plan_kept_rows(running);
        }
        let result = self.pass(forward, &AcceptanceStats::default(), running);
        self.note(result.map(drop), running);
    }

    /// Proposes for those that decode and have no proposal yet, as many tokens as promise to pay.
    pub(super) fn propose(
        &mut self,
        forward: &mut dyn Forward,
        verifier: Verifier<'_>,
        running: &mut [Running<Sequence>],
        clock: &dyn Fn() -> Duration,
    ) {
        if !self.pending || self.failed {
            return;
        }
        running.iter_mut().for_each(select);
        let deep = self.costs.depth(verifier, running, true);
        if deep > 0 {
            let result = self.draft(deep, forward, verifier, running, clock);
            self.note(result, running);
        }
    }

    /// Takes the last step's rows through the block, and drafts `deep` tokens, or fewer where acceptance is unlikely.
    fn draft(
        &mut self,
        deep: usize,
        forward: &mut dyn Forward,
        verifier: Verifier<'_>,
        running: &mut [Running<Sequence>],
        clock: &dyn Fn() -> Duration,
    ) -> Result<(), String> {
        running.iter_mut().for_each(plan_kept_rows);
        for drafted in 1..=deep {
            let began = clock();
            let rows = self.pass(forward, verifier.all, running)?;
            if rows == 0 {
                break;
            }
            self.costs.observe(rows, clock().saturating_sub(began));
            let least = self.costs.min_acceptance(verifier, running);
            for running in running.iter_mut() {
                let next = running.speculation.draft.computed + 1;
                let goes_on = running.speculation.draft.takes_part
                    && goes_on(running, verifier.all, drafted, deep, least)
                    && running.table.grow_to(next).is_ok();
                running.speculation.draft.takes_part = goes_on;
                running.speculation.draft.rows = usize::from(goes_on);
            }
        }
        Ok(())
    }

    /// One pass over the planned rows. Sequences that take part get one more proposed token from their last one. Returns
    /// how many rows there were.
    fn pass(
        &mut self,
        forward: &mut dyn Forward,
        all: &AcceptanceStats,
        running: &mut [Running<Sequence>],
    ) -> Result<usize, String> {
        let Predictor { tokens, from, want, .. } = self;
        tokens.clear();
        from.clear();
        want.clear();
        self.pending = false;
        let mut sequences = Vec::with_capacity(running.len());
        for Running { sequence, speculation, table, state, .. } in
            running.iter().filter(|r| r.speculation.draft.rows > 0)
        {
            let (draft, first) = (&speculation.draft, tokens.len());
            let positions = draft.computed..draft.computed + draft.rows;
            let text = sequence.tokens.iter().chain(speculation.proposal.tokens());
            tokens.extend(text.skip(positions.start + 1).take(draft.rows));
            from.extend(positions.clone().map(|position| speculation.hidden.row(position)));
            if draft.takes_part {
                want.push(tokens.len() - 1);
            }
            let state = state.as_ref().map_or(NO_STATE, LiveState::number);
            let rows = first..tokens.len();
            sequences.push(SequenceRows::last(rows, positions.start, table.blocks()).with_state(state));
        }
        if tokens.is_empty() {
            return Ok(0);
        }
        let decode_rows = if tokens.len() <= MAX_DECODE_ROWS { tokens.len() } else { 0 };
        let logits = forward.predict(&Rows { tokens, sequences: &sequences, want, decode_rows }, from)?;
        drop(sequences);
        let mut logits = logits.chunks_exact(self.vocab);
        for Running { speculation, .. } in running.iter_mut().filter(|r| r.speculation.draft.rows > 0) {
            speculation.draft.computed += std::mem::take(&mut speculation.draft.rows);
            if speculation.draft.takes_part {
                speculation.draft.takes_part =
                    logits.next().is_some_and(|logits| push_best(speculation, all, logits, self.vocab));
            }
        }
        Ok(self.tokens.len())
    }

    /// Gives the block up if it failed.
    fn note(&mut self, result: Result<(), String>, running: &mut [Running<Sequence>]) {
        if let Err(message) = result {
            self.failed = true;
            running.iter_mut().for_each(|r| r.speculation.draft.rows = 0);
            tracing::warn!(%message, "the block that predicts further tokens failed and is not used any more");
        }
    }
}

/// Marks whether a sequence can be drafted for: it decodes, and its last computed row has left a hidden state.
fn select(running: &mut Running<Sequence>) {
    let room = running.sequence.max_proposal().min(running.proposal_room());
    let decodes = running.rows > 0 && running.is_generated() && running.uncomputed() == 1;
    let Running { speculation, computed, .. } = running;
    let left = speculation.hidden.count > 0 && speculation.hidden.end() == *computed;
    speculation.draft.takes_part = decodes && left && room > 0 && speculation.proposal.is_empty();
}

/// Plans the rows that the last step computed of a sequence's tokens.
fn plan_kept_rows(running: &mut Running<Sequence>) {
    let HiddenRows { first_position, count, .. } = running.speculation.hidden;
    (running.speculation.draft.computed, running.speculation.draft.rows) = (first_position, count);
}
