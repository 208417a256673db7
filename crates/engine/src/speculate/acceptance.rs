//! How often guesses of each class came true, for one sequence and for all.

use super::proposal::{ANY_DRAFT, CLASSES, FORESEEN, Proposal, margin_class};

/// A step with proposals must promise so much more than one without.
pub(super) const MARGIN: f32 = 1.03;
/// A guess nobody has tried yet: hopeful, so that it is tried.
const UNTRIED: f32 = 0.7;
/// What a sequence begins with is worth so many tries of its own.
const BELIEF: f32 = 4.0;

/// Counts that fade: of tries, and of those that came true.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AcceptanceStats {
    hits: [f32; CLASSES],
    tries: [f32; CLASSES],
}

/// The odds of one sequence, leaning on those of all sequences where it has few of its own.
pub(super) struct AcceptanceEstimate<'a> {
    pub(super) own: &'a AcceptanceStats,
    pub(super) all: &'a AcceptanceStats,
}

impl AcceptanceStats {
    /// Takes note of a proposal of which the first `accepted` tokens were right. What came after the first wrong one
    /// was not tried. `fade` is how much of the older counts a new one leaves.
    pub(super) fn observe(&mut self, proposal: &Proposal, accepted: usize, fade: f32) {
        for (index, &class) in proposal.classes().iter().enumerate().take(accepted + 1) {
            let hit = if index < accepted { 1.0 } else { 0.0 };
            let drafted = (margin_class(0.0)..FORESEEN).contains(&usize::from(class));
            for class in [usize::from(class), ANY_DRAFT].into_iter().take(1 + usize::from(drafted)) {
                self.hits[class] = self.hits[class] * fade + hit;
                self.tries[class] = self.tries[class] * fade + 1.0;
            }
        }
    }
}

impl AcceptanceEstimate<'_> {
    /// The probability that a guess of this class is right, if those before it are.
    pub(super) fn probability(&self, class: usize) -> f32 {
        let all = (self.all.hits[class] + UNTRIED) / (self.all.tries[class] + 1.0);
        (self.own.hits[class] + BELIEF * all) / (self.own.tries[class] + BELIEF)
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
        assert!((odds(&own, 3) - UNTRIED).abs() < 1e-6);
        for _ in 0..200 {
            // The first is right, the second wrong, the third not tried.
            own.observe(&proposal(&[3, 4, 5]), 1, 0.95);
        }
        assert!(odds(&own, 3) > 0.9 && odds(&own, 4) < 0.15);
        assert!((odds(&own, 5) - UNTRIED).abs() < 1e-6, "what comes after a wrong guess was not tried");
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
        own.observe(&proposal(&[0, FORESEEN]), 2, 1.0);
        assert_eq!(own.tries[ANY_DRAFT], 3.0, "a match is no draft, nor is what a form foresees");
    }
}
