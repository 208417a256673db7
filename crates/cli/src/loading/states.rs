//! Memory for recurrent states: a part of what is there for contexts, beside keys and values.

use engine::Limits;
use model::Spec;

/// Bytes for the recurrent states of a model, of `left` bytes for states, keys and values: as many states as the engine
/// takes of itself, in at most half of it, and at least one; 0 for a model without.
pub(super) fn within(spec: &Spec, limits: &Limits, left: u64) -> u64 {
    let each = spec.state_shape(1).bytes();
    let wanted = Limits { state_bytes: 0, ..limits.clone() }.states(each) as u64;
    let affordable = (left / 2).checked_div(each).unwrap_or(0);
    wanted.min(affordable.max(1)) * each
}

/// Bytes for the recurrent states of a draft model, of which the engine takes two for each request that runs.
pub(super) fn of_draft(spec: &Spec, limits: &Limits) -> u64 {
    spec.state_shape(limits.max_running.saturating_mul(2)).bytes()
}
