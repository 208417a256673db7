//! The draft model (Leviathan et al., 2023; Chen et al., 2023): greedy, with KV blocks of its own. It follows the text
//! of the sequences that it drafts for; its KV cache after a rejected token is overwritten.

use std::time::Duration;

use super::acceptance::AcceptanceStats;
use super::drafting::{DraftCosts, Verifier, goes_on, push_best};
use super::guess::DraftState;
use crate::blocks::BlockPool;
use crate::running::Running;
use crate::sequence::Sequence;
use crate::states::StateSlots;
use crate::{Forward, Rows, SequenceRows, Speculation};

/// Most tokens that the draft model may lag behind a sequence: to catch up with more would cost more than drafting is
/// likely to bring.
const MAX_LAG: usize = 256;

/// The draft model with its measured costs.
pub(super) struct Drafter {
    forward: Box<dyn Forward>,
    pool: BlockPool,
    /// The draft model's recurrent states.
    states: StateSlots,
    costs: DraftCosts,
    /// Most rows of text read in one step to catch up.
    catch_up: usize,
    /// Vocabulary size of the large model.
    vocab: usize,
    /// Whether the draft model failed once; it is not used any more then.
    failed: bool,
    tokens: Vec<u32>,
    want: Vec<usize>,
}

impl Drafter {
    /// A drafter for a model of `vocab` tokens, and at most `sequences` sequences.
    pub(super) fn new(forward: Box<dyn Forward>, vocab: usize, sequences: usize, catch_up: usize) -> Drafter {
        let pool = BlockPool::new(forward.blocks(), forward.block_tokens());
        Drafter {
            pool,
            states: StateSlots::new(forward.states()),
            costs: DraftCosts::new(sequences),
            catch_up: catch_up.max(sequences),
            vocab,
            failed: false,
            tokens: Vec::with_capacity(catch_up.max(sequences)),
            want: Vec::with_capacity(sequences),
            forward,
        }
    }

    #[cfg(test)]
    pub(super) fn blocks_and_states_used(&self) -> (usize, usize) {
        (self.pool.used(), self.states.used())
    }

    /// Proposes for those that decode and have no proposal yet, as many tokens as promise to pay.
    pub(super) fn propose(
        &mut self,
        verifier: Verifier<'_>,
        running: &mut [Running<Sequence>],
        clock: &dyn Fn() -> Duration,
    ) {
        if self.failed {
            return;
        }
        let behind = self.select(verifier.options, running);
        let deep = self.costs.depth(verifier, running, behind <= MAX_LAG);
        if deep == 0 {
            return;
        }
        if let Err(message) = self.draft(deep, verifier, running, clock) {
            self.failed = true;
            running.iter_mut().for_each(|r| r.speculation.draft = DraftState::default());
            tracing::warn!(%message, "the draft model failed and is not used any more");
        }
    }

    /// Marks the sequences that can be drafted for; returns how many tokens the draft model lags behind them.
    fn select(&mut self, options: &Speculation, running: &mut [Running<Sequence>]) -> usize {
        let mut all_behind = 0;
        for running in running.iter_mut() {
            let room = running.sequence.max_proposal().min(running.proposal_room());
            let Running { sequence, speculation, rows, .. } = running;
            let behind = sequence.tokens.len() - speculation.draft.computed;
            let reachable = speculation.draft.computed == 0 || behind <= MAX_LAG.max(self.catch_up);
            if !reachable {
                speculation.draft.give_up();
            }
            let fits = sequence.tokens.len() + options.tokens <= self.forward.context();
            let free = *rows > 0 && speculation.proposal.is_empty() && room > 0;
            speculation.draft.takes_part = free && reachable && fits;
            all_behind += if speculation.draft.takes_part { behind } else { 0 };
        }
        all_behind
    }

    /// Catches up with the text, then drafts `deep` tokens, or fewer where acceptance is unlikely.
    fn draft(
        &mut self,
        deep: usize,
        verifier: Verifier<'_>,
        running: &mut [Running<Sequence>],
        clock: &dyn Fn() -> Duration,
    ) -> Result<(), String> {
        let mut left = self.catch_up;
        for running in running.iter_mut() {
            let behind = running.sequence.tokens.len() - running.speculation.draft.computed;
            self.plan_rows(running, behind.min(left));
            left -= running.speculation.draft.rows;
        }
        for step in 1..=deep {
            if self.forward_pass(verifier.all, running, clock)? == 0 {
                break;
            }
            let least = self.costs.min_acceptance(verifier, running);
            for running in running.iter_mut() {
                // From here on rows are of drafted tokens, which the sampler may reject.
                let saved =
                    goes_on(running, verifier.all, step, deep, least) && (step > 1 || self.save(running));
                self.plan_rows(running, usize::from(saved));
            }
        }
        Ok(())
    }

    /// Saves the recurrent state of a sequence, if it has one; false if there is no state to save it in.
    fn save(&mut self, running: &mut Running<Sequence>) -> bool {
        running.speculation.draft.save(&self.states, self.forward.as_mut())
    }

    /// Plans `rows` more rows of a participating sequence; without blocks for them, or a recurrent state, it takes part
    /// no more.
    fn plan_rows(&mut self, running: &mut Running<Sequence>, rows: usize) {
        let drafted = &mut running.speculation.draft;
        drafted.rows = 0;
        if !drafted.takes_part || rows == 0 {
            drafted.takes_part = false;
            return;
        }
        let table = drafted.table.get_or_insert_with(|| self.pool.table());
        drafted.takes_part = table.grow_to(drafted.computed + rows).is_ok()
            && drafted.find_state(&self.states, self.forward.as_mut());
        if drafted.takes_part {
            drafted.rows = rows;
        }
    }

    /// One pass over the planned rows. Those that reach the end of their text get one more proposed token. Returns how
    /// many rows there were.
    fn forward_pass(
        &mut self,
        all: &AcceptanceStats,
        running: &mut [Running<Sequence>],
        clock: &dyn Fn() -> Duration,
    ) -> Result<usize, String> {
        let Drafter { forward, costs, tokens, want, vocab, .. } = self;
        tokens.clear();
        want.clear();
        let mut sequences = Vec::with_capacity(running.len());
        for Running { sequence, speculation, .. } in running.iter() {
            let DraftState { table: Some(table), computed, rows: 1.., .. } = &speculation.draft else {
                continue;
            };
            let (first, end) = (tokens.len(), computed + speculation.draft.rows);
            let text = sequence.tokens.iter().chain(speculation.proposal.tokens());
            tokens.extend(text.skip(*computed).take(speculation.draft.rows));
            if end == sequence.tokens.len() + speculation.proposal.len() {
                want.push(tokens.len() - 1);
            }
            let rows = first..tokens.len();
            let state = speculation.draft.state();
            sequences.push(SequenceRows::last(rows, *computed, table.blocks()).with_state(state));
        }
        if tokens.is_empty() {
            return Ok(0);
        }
        let width = forward.vocab();
        let began = clock();
        // The draft's tokens are verified, so different numerics of prefill and decode do not matter.
        let decode_rows = tokens.len();
        let logits = forward.forward(&Rows { tokens, sequences: &sequences, want, decode_rows })?;
        drop(sequences);
        costs.observe(tokens.len(), clock().saturating_sub(began));
        let mut logits = logits.chunks_exact(width);
        for Running { sequence, speculation, .. } in
            running.iter_mut().filter(|r| r.speculation.draft.rows > 0)
        {
            speculation.draft.computed += std::mem::take(&mut speculation.draft.rows);
            speculation.draft.takes_part = false;
            if speculation.draft.computed < sequence.tokens.len() + speculation.proposal.len() {
                continue;
            }
            speculation.draft.takes_part =
                logits.next().is_some_and(|logits| push_best(speculation, all, logits, *vocab));
        }
        Ok(tokens.len())
    }
}
