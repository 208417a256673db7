//! The draft model (Leviathan et al., 2023; Chen et al., 2023): greedy, with KV blocks of its own. It follows the text
//! of the sequences that it drafts for; its KV cache after a rejected token is overwritten.

use std::time::Duration;

use super::acceptance::{AcceptanceEstimate, AcceptanceStats, MIN_SPEEDUP};
use super::guess::DraftState;
use super::proposal::{ANY_DRAFT, margin_class};
use crate::blocks::BlockPool;
use crate::costs::StepCosts;
use crate::running::Running;
use crate::sequence::Sequence;
use crate::states::StateSlots;
use crate::{Forward, Rows, SequenceRows, Speculation};

/// Most tokens that the draft model may lag behind a sequence: to catch up with more would cost more than drafting is
/// likely to bring.
const MAX_LAG: usize = 256;
/// Steps without drafting before it is tried again.
const PROBE_EVERY: u32 = 256;

/// The draft model with its measured costs.
pub(super) struct Drafter {
    forward: Box<dyn Forward>,
    pool: BlockPool,
    /// The draft model's recurrent states.
    states: StateSlots,
    costs: StepCosts,
    /// Most rows of text read in one step to catch up.
    catch_up: usize,
    declined: u32,
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
            costs: StepCosts::new(sequences),
            catch_up: catch_up.max(sequences),
            declined: 0,
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

    /// Proposes for those that decode and have no proposal yet, as many tokens as promise to pay. `costs` are those of
    /// the large model, `all` the acceptance rates of all sequences.
    pub(super) fn propose(
        &mut self,
        options: &Speculation,
        costs: &StepCosts,
        all: &AcceptanceStats,
        running: &mut [Running<Sequence>],
        clock: &dyn Fn() -> Duration,
    ) {
        if self.failed {
            return;
        }
        let decoding = running.iter().filter(|r| r.rows > 0).count();
        let others: usize = running.iter().map(|r| r.speculation.proposal.len()).sum();
        let taking_part = self.select(options, running);
        if taking_part == 0 {
            return;
        }
        let budget = options.max_rows().saturating_sub(others) / taking_part;
        let most = options.tokens.min(budget);
        let deep = if options.always { most } else { self.depth(costs, all, running, decoding, most) };
        if deep == 0 {
            return;
        }
        if let Err(message) = self.draft(deep, options, costs, all, running, clock) {
            self.failed = true;
            running.iter_mut().for_each(|r| r.speculation.draft = DraftState::default());
            tracing::warn!(%message, "the draft model failed and is not used any more");
        }
    }

    /// Marks the sequences that can be drafted for; returns how many.
    fn select(&mut self, options: &Speculation, running: &mut [Running<Sequence>]) -> usize {
        let mut count = 0;
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
            count += usize::from(speculation.draft.takes_part);
        }
        count
    }

    /// The draft length that promises the most tokens a second, by acceptance rates so far; 0 if none pays.
    fn depth(
        &mut self,
        costs: &StepCosts,
        all: &AcceptanceStats,
        running: &[Running<Sequence>],
        decoding: usize,
        most: usize,
    ) -> usize {
        let Some(plain) = costs.estimate(decoding) else { return 0 };
        let drafting = || running.iter().filter(|r| r.speculation.draft.takes_part);
        let count = drafting().count();
        let draft_step = self.costs.estimate(count).unwrap_or(0.0);
        let mut best = (decoding as f32 / plain * MIN_SPEEDUP, 0);
        for deep in 1..=most {
            let expected: f32 = drafting()
                .map(|r| {
                    let right =
                        AcceptanceEstimate { own: &r.speculation.acceptance, all }.probability(ANY_DRAFT);
                    (1..=deep as i32).map(|n| right.powi(n)).sum::<f32>()
                })
                .sum();
            let seconds = costs.estimate(decoding + deep * count).unwrap_or(plain) + deep as f32 * draft_step;
            let per_second = (decoding as f32 + expected) / seconds;
            if per_second > best.0 {
                best = (per_second, deep);
            }
        }
        if best.1 > 0 {
            self.declined = 0;
            return best.1;
        }
        self.declined += 1;
        let behind =
            drafting().map(|r| r.sequence.tokens.len() - r.speculation.draft.computed).sum::<usize>();
        if self.declined < PROBE_EVERY || behind > MAX_LAG {
            return 0;
        }
        self.declined = 0;
        most.min(2)
    }

    /// Catches up with the text, then drafts `deep` tokens, or fewer where acceptance is unlikely.
    fn draft(
        &mut self,
        deep: usize,
        options: &Speculation,
        costs: &StepCosts,
        all: &AcceptanceStats,
        running: &mut [Running<Sequence>],
        clock: &dyn Fn() -> Duration,
    ) -> Result<(), String> {
        let decoding = running.iter().filter(|r| r.rows > 0).count();
        let mut left = self.catch_up;
        for running in running.iter_mut() {
            let behind = running.sequence.tokens.len() - running.speculation.draft.computed;
            self.plan_rows(running, behind.min(left));
            left -= running.speculation.draft.rows;
        }
        for step in 1..=deep {
            if self.forward_pass(all, running, clock)? == 0 {
                break;
            }
            let least = if options.always { 0.0 } else { self.min_acceptance(costs, decoding, running) };
            for running in running.iter_mut() {
                let Running { sequence, speculation, .. } = &*running;
                let most = deep.min(sequence.max_proposal()).min(running.proposal_room());
                let right = speculation.proposal.joint_probability()
                    * AcceptanceEstimate { own: &speculation.acceptance, all }.probability(ANY_DRAFT);
                let goes_on = step < most && speculation.proposal.len() == step && right >= least;
                // From here on rows are of drafted tokens, which the sampler may reject.
                let saved = goes_on && (step > 1 || self.save(running));
                self.plan_rows(running, usize::from(saved));
            }
        }
        Ok(())
    }

    /// The least probability at which one more token pays: what it costs to draft and to verify, in tokens of a step
    /// without proposals.
    fn min_acceptance(&self, costs: &StepCosts, decoding: usize, running: &[Running<Sequence>]) -> f32 {
        let rows = decoding + running.iter().map(|r| r.speculation.proposal.len()).sum::<usize>();
        let seconds = |rows| costs.estimate(rows).unwrap_or(0.0);
        let drafting = running.iter().filter(|r| r.speculation.draft.takes_part).count().max(1);
        let draft = self.costs.estimate(drafting).unwrap_or(0.0) / drafting as f32;
        let verify = (seconds(rows + 1) - seconds(rows)).max(0.0);
        (draft + verify) * decoding as f32 / seconds(decoding).max(f32::MIN_POSITIVE)
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
        costs.observe(tokens.len(), clock().saturating_sub(began).as_secs_f32());
        let mut logits = logits.chunks_exact(width);
        for Running { sequence, speculation, .. } in
            running.iter_mut().filter(|r| r.speculation.draft.rows > 0)
        {
            speculation.draft.computed += std::mem::take(&mut speculation.draft.rows);
            speculation.draft.takes_part = false;
            if speculation.draft.computed < sequence.tokens.len() + speculation.proposal.len() {
                continue;
            }
            if let Some((token, margin)) =
                logits.next().and_then(best_with_margin).filter(|b| (b.0 as usize) < *vocab)
            {
                let class = margin_class(margin);
                let odds = AcceptanceEstimate { own: &speculation.acceptance, all }.probability(class);
                speculation.proposal.push(token, class, odds);
                speculation.draft.takes_part = true;
            }
        }
        Ok(tokens.len())
    }
}

/// The likeliest token and the margin of its logit over the second; none if the logits are not finite.
fn best_with_margin(logits: &[f32]) -> Option<(u32, f32)> {
    let (mut best, mut at, mut second) = (f32::NEG_INFINITY, 0, f32::NEG_INFINITY);
    for (index, &logit) in (0u32..).zip(logits) {
        if logit > best {
            (second, best, at) = (best, logit, index);
        } else if logit > second {
            second = logit;
        }
    }
    best.is_finite().then_some((at, best - second))
}
