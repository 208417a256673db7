//! The least expected seconds to the end of the answer: waiting, the prompt that is not cached, and the steps.
//!
//! Cached tokens and load are one score: a longer wait costs what it costs, and there is no switch between affinity and
//! balance. Estimates are not exact, so targets within a tenth of the least are equal: among them the conversation's
//! own is chosen, which all replicas agree on, unless its load is above the bound; without a conversation, the less
//! loaded of two random ones, so that replicas with the same records do not all choose the same target.

use super::sticky::within_bound;
use crate::candidate::{Candidate, Choice, Reason};
use crate::random::Random;

/// Targets within this factor of the least time are near ties.
const NEAR: f64 = 1.1;
/// The same where other replicas of the gateway serve turns of the same conversations: a target that all of them would
/// choose is worth a wait, because no other will hold the conversation for all of them.
const NEAR_SHARED: f64 = 1.5;
/// So are those within this many seconds: less than a step of most nodes.
const NEAR_S: f64 = 0.02;

/// The chosen candidate. `is_shared` tells that other replicas serve the same conversations.
pub(crate) fn choose(candidates: &[Candidate], is_shared: bool, random: &mut Random) -> Option<Choice> {
    let least_at =
        (0..candidates.len()).min_by(|a, b| candidates[*a].cost_s().total_cmp(&candidates[*b].cost_s()))?;
    let least = candidates[least_at].cost_s();
    let is_near_by =
        |factor: f64| move |at: &usize| candidates[*at].cost_s() <= (least * factor).max(least + NEAR_S);
    let is_near = is_near_by(NEAR);
    let near = (0..candidates.len()).filter(is_near);
    // A cache that saves much makes its holder the only near one.
    let held = candidates[least_at].cached > 0.0;
    let within = within_bound(candidates);
    let order = |a: &usize, b: &usize| candidates[*a].by_affinity(&candidates[*b]);
    let is_near_shared = is_near_by(if is_shared { NEAR_SHARED } else { NEAR });
    let sticky = (0..candidates.len()).filter(is_near_shared);
    let sticky = sticky.filter(|at| candidates[*at].affinity > 0.0).filter(|at| within(&candidates[*at]));
    if let Some(at) = sticky.max_by(order) {
        let reason = match candidates[at].cached > 0.0 {
            true => Reason::CachedPrefix,
            false => Reason::Affinity,
        };
        return Some(Choice { at, reason });
    }
    let count = near.clone().count();
    let mut draw = || near.clone().nth(random.below(count)).unwrap_or(least_at);
    let (a, b) = (draw(), draw());
    let load = |at: usize| f64::from(candidates[at].in_flight) / f64::from(candidates[at].weight.max(1));
    let at = if load(b) < load(a) { b } else { a };
    Some(Choice { at, reason: if held { Reason::CachedPrefix } else { Reason::LeastTime } })
}
