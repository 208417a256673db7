//! Smooth weighted round robin, as nginx has it: each turn adds a target's weight to its credit, and the one with the
//! most credit is chosen and pays the sum of the weights. So a target of weight 5 among ones of 1 is not chosen five
//! times in a row.

use crate::candidate::{Candidate, Choice};

/// The candidate with the most credit after this turn.
pub(crate) fn choose(candidates: &[Candidate]) -> Option<Choice> {
    let credit = |at: &usize| candidates[*at].turn_weight + i64::from(candidates[*at].weight);
    // The first of equal ones: `max_by_key` would return the last.
    (0..candidates.len()).rev().max_by_key(credit).map(Choice::by_policy)
}
