//! What a draft model and a model's own block have in common: how far drafting pays, and a token more from logits.

use std::time::Duration;

use super::acceptance::{AcceptanceEstimate, AcceptanceStats, MIN_SPEEDUP};
use super::guess::SpeculationState;
use super::proposal::{ANY_DRAFT, margin_class};
use crate::Speculation;
use crate::costs::StepCosts;
use crate::running::Running;
use crate::sequence::Sequence;

/// Steps without drafting before it is tried again.
const PROBE_EVERY: u32 = 256;

/// What is known of the model that verifies.
#[derive(Clone, Copy)]
pub(super) struct Verifier<'a> {
    pub(super) options: &'a Speculation,
    /// Its costs.
    pub(super) costs: &'a StepCosts,
    /// The acceptance rates of all sequences.
    pub(super) all: &'a AcceptanceStats,
}

/// Measured costs of passes that draft, and whether they paid.
pub(super) struct DraftCosts {
    passes: StepCosts,
    /// Steps since drafting paid last.
    declined: u32,
}

impl DraftCosts {
    /// Costs of passes for at most `sequences` sequences.
    pub(super) fn new(sequences: usize) -> DraftCosts {
        DraftCosts { passes: StepCosts::new(sequences), declined: 0 }
    }

    /// Records that a pass of `rows` rows took so long.
    pub(super) fn observe(&mut self, rows: usize, took: Duration) {
        self.passes.observe(rows, took.as_secs_f32());
    }

    /// How many tokens to draft for each sequence that takes part: what promises the most tokens a second, by acceptance
    /// rates so far; 0 if none pays. Now and then a few all the same, if it `may_probe`.
    pub(super) fn depth(
        &mut self,
        verifier: Verifier<'_>,
        running: &[Running<Sequence>],
        may_probe: bool,
    ) -> usize {
        let taking_part = running.iter().filter(|r| r.speculation.draft.takes_part).count();
        if taking_part == 0 {
            return 0;
        }
        let others: usize = running.iter().map(|r| r.speculation.proposal.len()).sum();
        let budget = verifier.options.max_rows().saturating_sub(others) / taking_part;
        let most = verifier.options.tokens.min(budget);
        if verifier.options.always {
            return most;
        }
        let Some(best) = self.best_depth(verifier, running, most) else { return 0 };
        if best > 0 {
            self.declined = 0;
            return best;
        }
        self.declined += 1;
        if self.declined < PROBE_EVERY || !may_probe {
            return 0;
        }
        self.declined = 0;
        most.min(2)
    }

    /// The depth of at most `most` tokens that promises the most tokens a second; 0 if none pays, none if nothing is known.
    fn best_depth(
        &self,
        verifier: Verifier<'_>,
        running: &[Running<Sequence>],
        most: usize,
    ) -> Option<usize> {
        let Verifier { costs, all, .. } = verifier;
        let decoding = decoding(running);
        let plain = costs.estimate(decoding)?;
        let drafting = || running.iter().filter(|r| r.speculation.draft.takes_part);
        let count = drafting().count();
        let pass = self.passes.estimate(count).unwrap_or(0.0);
        let mut best = (decoding as f32 / plain * MIN_SPEEDUP, 0);
        for deep in 1..=most {
            let expected: f32 = drafting()
                .map(|r| {
                    let right =
                        AcceptanceEstimate { own: &r.speculation.acceptance, all }.probability(ANY_DRAFT);
                    (1..=deep as i32).map(|n| right.powi(n)).sum::<f32>()
                })
                .sum();
            let seconds = costs.estimate(decoding + deep * count).unwrap_or(plain) + deep as f32 * pass;
            let per_second = (decoding as f32 + expected) / seconds;
            if per_second > best.0 {
                best = (per_second, deep);
            }
        }
        Some(best.1)
    }

    /// The least probability at which one more token pays: what it costs to draft and to verify, in tokens of a step
    /// without proposals.
    pub(super) fn min_acceptance(&self, verifier: Verifier<'_>, running: &[Running<Sequence>]) -> f32 {
        if verifier.options.always {
            return 0.0;
        }
        let decoding = decoding(running);
        let rows = decoding + running.iter().map(|r| r.speculation.proposal.len()).sum::<usize>();
        let seconds = |rows| verifier.costs.estimate(rows).unwrap_or(0.0);
        let drafting = running.iter().filter(|r| r.speculation.draft.takes_part).count().max(1);
        let draft = self.passes.estimate(drafting).unwrap_or(0.0) / drafting as f32;
        let verify = (seconds(rows + 1) - seconds(rows)).max(0.0);
        (draft + verify) * decoding as f32 / seconds(decoding).max(f32::MIN_POSITIVE)
    }
}

/// Sequences of the step, all of which decode.
fn decoding(running: &[Running<Sequence>]) -> usize {
    running.iter().filter(|r| r.rows > 0).count()
}

/// Whether a sequence for which `drafted` tokens are drafted gets one more, of at most `deep`, if that is right with a
/// probability of at least `least`.
pub(super) fn goes_on(
    running: &Running<Sequence>,
    all: &AcceptanceStats,
    drafted: usize,
    deep: usize,
    least: f32,
) -> bool {
    let Running { sequence, speculation, .. } = running;
    let most = deep.min(sequence.max_proposal()).min(running.proposal_room());
    let right = speculation.proposal.joint_probability()
        * AcceptanceEstimate { own: &speculation.acceptance, all }.probability(ANY_DRAFT);
    drafted < most && speculation.proposal.len() == drafted && right >= least
}

/// Adds the likeliest token of `logits` to a proposal, if it is one of `vocab`. False if none was added.
pub(super) fn push_best(
    speculation: &mut SpeculationState,
    all: &AcceptanceStats,
    logits: &[f32],
    vocab: usize,
) -> bool {
    let best = best_with_margin(logits).filter(|(token, _)| (*token as usize) < vocab);
    if let Some((token, margin)) = best {
        let class = margin_class(margin);
        let odds = AcceptanceEstimate { own: &speculation.acceptance, all }.probability(class);
        speculation.proposal.push(token, class, odds);
    }
    best.is_some()
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
