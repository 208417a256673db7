//! The conversation's own target by rendezvous hashing, or the next in that order if its load is above the bound.

use crate::candidate::{Candidate, Choice, Reason};
use crate::random::Random;
use crate::rendezvous::bounded_load;

/// The candidate with the highest rendezvous score whose load is within the bound; without a conversation, the less
/// loaded of two.
pub(crate) fn choose(candidates: &[Candidate], random: &mut Random) -> Option<Choice> {
    let within = within_bound(candidates);
    let order = |a: &usize, b: &usize| candidates[*a].affinity.total_cmp(&candidates[*b].affinity);
    let best = (0..candidates.len()).filter(|at| within(&candidates[*at])).max_by(order)?;
    if candidates[best].affinity > 0.0 {
        return Some(Choice { at: best, reason: Reason::Affinity });
    }
    let (a, b) = (random.below(candidates.len()), random.below(candidates.len()));
    let load = |at: usize| f64::from(candidates[at].in_flight) / f64::from(candidates[at].weight.max(1));
    Some(Choice::by_policy(if load(b) < load(a) { b } else { a }))
}

/// Whether a candidate may take one more request within the bounded load of all of them.
pub(crate) fn within_bound(candidates: &[Candidate]) -> impl Fn(&Candidate) -> bool {
    let total = 1.0 + candidates.iter().map(|candidate| candidate.requests).sum::<f64>();
    let weights: u64 = candidates.iter().map(|candidate| u64::from(candidate.weight.max(1))).sum();
    move |candidate: &Candidate| candidate.requests + 1.0 <= bounded_load(total, candidate.weight, weights)
}
