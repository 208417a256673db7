//! Acceptance rates of proposed tokens by class, of one sequence and of all.

use super::proposal::{ANY_DRAFT, CLASSES, FORCED, Proposal, margin_class};

/// Least expected speed-up of a step with proposals over one without.
pub(super) const MIN_SPEEDUP: f32 = 1.03;
/// Acceptance rate of a class without tries: high, so that it is tried.
const PRIOR: f32 = 0.7;
/// Weight of the prior, in tries.
const PRIOR_WEIGHT: f32 = 4.0;

/// Decaying counts of tries and acceptances, by class of proposed token.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AcceptanceStats {
    hits: [f32; CLASSES],
    tries: [f32; CLASSES],
}

/// The acceptance rates of one sequence, with those of all sequences as the prior.
pub(super) struct AcceptanceEstimate<'a> {
    pub(super) own: &'a AcceptanceStats,
    pub(super) all: &'a AcceptanceStats,
}

impl AcceptanceStats {
    /// Records a proposal of which the first `accepted` tokens were accepted. Tokens after the first rejected one were
    /// not tried. Older counts are multiplied by `decay`.
    pub(super) fn observe(&mut self, proposal: &Proposal, accepted: usize, decay: f32) {
        for (index, &class) in proposal.classes().iter().enumerate().take(accepted + 1) {
            let hit = if index < accepted { 1.0 } else { 0.0 };
            let drafted = (margin_class(0.0)..FORCED).contains(&usize::from(class));
            for class in [usize::from(class), ANY_DRAFT].into_iter().take(1 + usize::from(drafted)) {
                self.hits[class] = self.hits[class] * decay + hit;
                self.tries[class] = self.tries[class] * decay + 1.0;
            }
        }
    }
}

impl AcceptanceEstimate<'_> {
    /// Estimated probability that a token of this class is accepted, if those before it are.
    pub(super) fn probability(&self, class: usize) -> f32 {
        let all = (self.all.hits[class] + PRIOR) / (self.all.tries[class] + 1.0);
        (self.own.hits[class] + PRIOR_WEIGHT * all) / (self.own.tries[class] + PRIOR_WEIGHT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal(classes: &[usize]) -> Proposal {
        let mut proposal = Proposal::default();
        classes.iter().for_each(|class| proposal.push(1, *class, 0.5));
        proposal
    }

    #[test]
    fn odds_follow_what_happened() {
        let (mut own, all) = (AcceptanceStats::default(), AcceptanceStats::default());
        let odds = |own: &AcceptanceStats, class| AcceptanceEstimate { own, all: &all }.probability(class);
        assert!((odds(&own, 3) - PRIOR).abs() < 1e-6);
        for _ in 0..200 {
            // The first is right, the second wrong, the third not tried.
            own.observe(&proposal(&[3, 4, 5]), 1, 0.95);
        }
        assert!(odds(&own, 3) > 0.9 && odds(&own, 4) < 0.15);
        assert!((odds(&own, 5) - PRIOR).abs() < 1e-6, "what comes after a wrong guess was not tried");
        let news = AcceptanceStats::default();
        let heard = AcceptanceEstimate { own: &news, all: &own };
        assert!(
            heard.probability(3) > 0.9 && heard.probability(4) < 0.15,
            "a new sequence starts from what all did"
        );
    }

    #[test]
    fn a_draft_counts_for_its_class_and_for_all_drafts() {
        let mut own = AcceptanceStats::default();
        own.observe(&proposal(&[9, 9]), 2, 1.0);
        own.observe(&proposal(&[6]), 0, 1.0);
        assert_eq!((own.tries[9], own.tries[6], own.tries[ANY_DRAFT]), (2.0, 1.0, 3.0));
        assert_eq!((own.hits[9], own.hits[6], own.hits[ANY_DRAFT]), (2.0, 0.0, 2.0));
        own.observe(&proposal(&[0, FORCED]), 2, 1.0);
        assert_eq!(own.tries[ANY_DRAFT], 3.0, "a match is no draft, nor is what a form foresees");
    }
}
