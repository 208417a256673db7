//! Speculative decoding: proposed tokens are computed in one batch after a sequence's last token, and accepted as far
//! as the sampler chooses the same. `docs/decisions/0012-speculation.md` has the reasons.
//!
//! At each row the request's own sampler chooses as usual, so the text is the same with and without proposals, for
//! every sampler and seed. The decisions of this module change speed only, so they may depend on measured times.
//!
//! Deliberately absent: trees of proposals, rejection sampling (it would change the text of a seed), proposals in steps
//! with prefill rows (which are bound by arithmetic already).

mod acceptance;
mod draft;
mod drafting;
pub(crate) mod guess;
mod lookup;
mod predictor;
pub(crate) mod proposal;

use std::time::Duration;

use acceptance::{AcceptanceEstimate, AcceptanceStats, MIN_SPEEDUP};
use draft::Drafter;
use drafting::Verifier;
use guess::SpeculationState;
use predictor::Predictor;
use proposal::{FORCED, LAST_FORCED, Proposal};

use crate::costs::StepCosts;
use crate::limits::StepBounds;
use crate::running::Running;
use crate::sequence::Sequence;
use crate::{Forward, Speculation};

/// Most rows of text that a draft model reads in one step to catch up.
const CATCH_UP: usize = 64;
/// Steps without proposals before some are tried all the same, and steps with proposals before one goes without, so
/// that the costs of both stay known.
const PROBE_EVERY: u32 = 64;
/// Length of a trial proposal, made although it is not expected to pay, to learn its acceptance.
const PROBE_TOKENS: usize = 4;
/// Steps measured before anything is proposed: the first ones after a start are slow.
const WARM_UP: u32 = 3;
/// Decay of older counts with each new one: of a sequence, and of all.
const SEQUENCE_DECAY: f32 = 0.95;
const GLOBAL_DECAY: f32 = 0.995;

/// Decides which tokens to propose, from measured costs and acceptance rates.
pub(crate) struct Speculator {
    options: Speculation,
    /// Vocabulary size of the model.
    vocab: usize,
    drafter: Option<Drafter>,
    predictor: Option<Predictor>,
    costs: StepCosts,
    acceptance: AcceptanceStats,
    /// Steps without proposals that were measured.
    plain: u32,
    /// Steps since the last one with proposals, of those that had some to make.
    declined: u32,
    /// Steps with proposals since the last one without.
    streak: u32,
    /// The sequence whose proposal grew by one, for each row of the step being planned.
    grown: Vec<u32>,
}

impl Speculator {
    /// A speculator for steps within `bounds` of a model of `vocab` tokens, with a draft model if there is one, and with
    /// the model's own block if it `predicts`.
    pub(crate) fn new(
        bounds: &StepBounds,
        vocab: usize,
        draft: Option<Box<dyn Forward>>,
        predicts: bool,
    ) -> Speculator {
        let options = Speculation {
            tokens: bounds.speculation.tokens.min(Speculation::MAX_TOKENS),
            ..bounds.speculation
        };
        let sequences = bounds.max_sequences();
        let catch_up = bounds.prefill_chunk.min(CATCH_UP);
        Speculator {
            options,
            vocab,
            drafter: draft.map(|forward| Drafter::new(forward, vocab, sequences, catch_up)),
            predictor: (predicts && options.tokens > 0).then(|| Predictor::new(bounds, vocab)),
            costs: StepCosts::new(sequences + options.max_rows()),
            acceptance: AcceptanceStats::default(),
            plain: 0,
            declined: 0,
            streak: 0,
            grown: Vec::with_capacity(options.max_rows()),
        }
    }

    /// Whether a draft model proposes tokens.
    pub(crate) fn has_draft(&self) -> bool {
        self.drafter.is_some()
    }

    #[cfg(test)]
    pub(crate) fn draft_blocks_and_states_used(&self) -> (usize, usize) {
        self.drafter.as_ref().map_or((0, 0), Drafter::blocks_and_states_used)
    }

    /// Notes where in the planned step the rows of each sequence are, if its hidden states are of use afterwards.
    pub(crate) fn place_rows(&mut self, running: &mut [Running<Sequence>]) {
        if let Some(predictor) = &mut self.predictor {
            predictor.place_rows(running);
        }
    }

    /// Notes which rows of the step that ended are of tokens that their sequence kept.
    pub(crate) fn keep_rows(&mut self, running: &mut [Running<Sequence>]) {
        if let Some(predictor) = &mut self.predictor {
            predictor.keep_rows(running);
        }
    }

    /// Makes use of the hidden states of the last step, before the next one replaces them.
    pub(crate) fn follow(&mut self, forward: &mut dyn Forward, running: &mut [Running<Sequence>]) {
        if let Some(predictor) = &mut self.predictor {
            predictor.follow(forward, running);
        }
    }

    /// Proposes tokens for the sequences of a step that only decodes, and takes KV blocks for them.
    pub(crate) fn propose(
        &mut self,
        forward: &mut dyn Forward,
        running: &mut [Running<Sequence>],
        clock: &dyn Fn() -> Duration,
    ) {
        let plain = running.iter().filter(|r| r.rows > 0).count();
        let replays: usize = running.iter().map(Running::replays).sum();
        if self.options.tokens == 0 || plain == 0 || self.is_baseline_step() {
            return;
        }
        self.guess(running);
        let verifier = Verifier { options: &self.options, costs: &self.costs, all: &self.acceptance };
        if let Some(drafter) = &mut self.drafter {
            drafter.propose(verifier, running, clock);
        }
        if let Some(predictor) = &mut self.predictor {
            predictor.propose(forward, verifier, running, clock);
        }
        for running in running.iter_mut() {
            let room = running.proposal_room();
            running.speculation.proposal.truncate(room);
        }
        let taken = self.trim_to_best(running, plain, replays);
        self.streak = if taken > 0 { self.streak + 1 } else { 0 };
        for running in running.iter_mut().filter(|r| !r.speculation.proposal.is_empty()) {
            let rows = running.rows + running.speculation.proposal.len();
            // The last row of a prompt gets no proposals.
            if running.is_generated()
                && running.table.grow_to(running.computed + rows).is_ok()
                && running.find_state_to_save_in()
            {
                running.rows = rows;
            } else {
                running.speculation.proposal.truncate(0);
            }
        }
    }

    /// Whether this step goes without proposals to learn what that costs.
    fn is_baseline_step(&mut self) -> bool {
        if self.options.always || (self.plain >= WARM_UP && self.streak < PROBE_EVERY) {
            return false;
        }
        self.streak = 0;
        true
    }

    /// Proposes the tokens that constraints force, then prompt lookup.
    fn guess(&self, running: &mut [Running<Sequence>]) {
        for running in running.iter_mut().filter(|r| r.rows > 0 && r.proposal_room() > 0) {
            let Running { sequence, speculation, .. } = running;
            let most = self.options.tokens.min(sequence.max_proposal());
            let estimate = AcceptanceEstimate { own: &speculation.acceptance, all: &self.acceptance };
            let mut proposal = Proposal::default();
            let forced = sequence.forced_tokens();
            // A token beyond the embedding cannot be computed.
            let known = forced.iter().take_while(|token| (**token as usize) < self.vocab);
            for (at, token) in known.enumerate().take(most) {
                let class = if at + 1 < forced.len() { FORCED } else { LAST_FORCED };
                proposal.push(*token, class, estimate.probability(class));
            }
            if self.options.lookup {
                let own = sequence.tokens.len();
                sequence.tokens.extend_from_slice(proposal.tokens());
                let rest = most - proposal.len();
                lookup::extend(&mut proposal, &sequence.tokens, rest, &estimate);
                sequence.tokens.truncate(own);
            }
            speculation.proposal = proposal;
        }
    }

    /// Trims the proposals to what promises the most tokens a second, in a step that chooses `plain` tokens without them
    /// and computes `replays` rows again; returns how many rows are left.
    fn trim_to_best(&mut self, running: &mut [Running<Sequence>], plain: usize, replays: usize) -> usize {
        if running.iter().all(|r| r.speculation.proposal.is_empty()) {
            return 0;
        }
        let mut taken = self.best(running, plain, replays);
        if taken == 0 {
            self.declined += 1;
            if self.declined >= PROBE_EVERY {
                taken = PROBE_TOKENS.min(self.grown.len());
            }
        }
        if taken > 0 {
            self.declined = 0;
        }
        for (at, running) in running.iter_mut().enumerate() {
            let len = grown_by(&self.grown[..taken], at);
            running.speculation.proposal.truncate(len);
        }
        taken
    }

    /// Fills `grown`, the likeliest token first, and returns how many of its entries to take.
    fn best(&mut self, running: &[Running<Sequence>], plain: usize, replays: usize) -> usize {
        let Speculator { options, costs, grown, .. } = self;
        grown.clear();
        let per_second = |tokens: f32, rows: usize, again: f32| {
            let seconds = |rows| costs.estimate(plain + rows);
            let later =
                seconds(again.ceil() as usize).zip(seconds(0)).map_or(0.0, |(with, without)| with - without);
            seconds(replays + rows).map_or(0.0, |seconds| tokens / (seconds + later.max(0.0)))
        };
        let mut most = per_second(plain as f32, 0, 0.0) * MIN_SPEEDUP;
        let (mut tokens, mut best) = (plain as f32, 0);
        while grown.len() + replays < options.max_rows() {
            let next = running.iter().enumerate().filter_map(|(at, r)| {
                r.speculation.proposal.survival(grown_by(grown, at)).map(|survival| (at, survival))
            });
            let Some((at, survival)) = next.max_by(|a, b| a.1.total_cmp(&b.1)) else { break };
            grown.push(at as u32);
            tokens += survival;
            let promised = per_second(tokens, grown.len(), expected_replays(running, grown));
            if promised > most || options.always {
                (most, best) = (promised, grown.len());
            }
        }
        best
    }

    /// Records the time of a step that only decoded.
    pub(crate) fn measured(&mut self, rows: usize, proposed: usize, took: Duration) {
        self.costs.observe(rows, took.as_secs_f32());
        if proposed == 0 {
            self.plain = self.plain.saturating_add(1);
        }
    }

    /// Learns that the sampler chose the first `accepted` tokens of `proposal`. `speculation` is the state of the
    /// sequence, which continues and has `len` tokens now.
    pub(crate) fn verified(
        &mut self,
        speculation: &mut SpeculationState,
        proposal: &Proposal,
        accepted: usize,
        len: usize,
    ) {
        speculation.acceptance.observe(proposal, accepted, SEQUENCE_DECAY);
        self.acceptance.observe(proposal, accepted, GLOBAL_DECAY);
        speculation.draft.keep(len - 1);
    }
}

/// Tokens by which the proposal of the sequence at `index` has grown.
fn grown_by(grown: &[u32], index: usize) -> usize {
    grown.iter().filter(|grown| **grown as usize == index).count()
}

/// Expected rows to be computed again if proposals grow like this: those of accepted tokens before a rejected one, of
/// sequences with a recurrent state.
fn expected_replays(running: &[Running<Sequence>], grown: &[u32]) -> f32 {
    let recurrent = running.iter().enumerate().filter(|(_, running)| running.state.is_some());
    let of = |(at, running): (usize, &Running<Sequence>)| {
        let (len, proposal) = (grown_by(grown, at), &running.speculation.proposal);
        let survival = |index| proposal.survival(index).unwrap_or(0.0);
        let all = len.checked_sub(1).map_or(0.0, survival);
        (0..len).map(survival).sum::<f32>() - len as f32 * all
    };
    recurrent.map(of).sum()
}
