//! One target after the other.

use crate::candidate::{Candidate, Choice};

/// The candidate in the first slot after the one chosen last.
pub(crate) fn choose(candidates: &[Candidate], last: u32) -> Option<Choice> {
    let after = |at: &usize| {
        let slot = candidates[*at].slot;
        (slot <= last, slot)
    };
    (0..candidates.len()).min_by_key(after).map(Choice::by_policy)
}
