//! A request at a target: what was expected of it, and what must be undone when it fails.

use crate::candidate::Reason;
use crate::chain::Boundary;
use crate::target::TargetId;

/// A request that was dispatched: counted in flight at its target until it is handed to
/// [`crate::Router::finished`], once.
#[derive(Debug)]
#[must_use = "a flight that is not finished counts as load forever"]
pub struct Flight {
    /// The target.
    pub target: TargetId,
    /// Why it was chosen.
    pub reason: Reason,
    /// Expected seconds to the first token.
    pub first_token_s: f64,
    /// Expected seconds to the end of the answer.
    pub completion_s: f64,
    /// Prompt tokens that the target's cache is expected to hold.
    pub cached_tokens: u64,
    /// Expected tokens of the answer.
    pub output_tokens: u64,
    /// Expected price in nano units, if the target has one.
    pub price: Option<u64>,
    /// Whether this request is the one that tries the target after failures.
    pub(crate) probe: bool,
    pub(crate) tenant: u64,
    pub(crate) prompt_tokens: u64,
    /// Prompt tokens at the target before it.
    pub(crate) ahead: f64,
    /// Requests at the target, this one included.
    pub(crate) requests: f64,
    /// Prompt tokens to compute.
    pub(crate) uncached: f64,
    /// Whether it waits for a slot, so that its first token tells nothing of the prompt's speed.
    pub(crate) waits: bool,
    /// Prompt tokens that the target was thought to hold in part.
    pub(crate) assumed: u64,
    /// Boundaries that the target held before.
    pub(crate) depth: usize,
    pub(crate) chain: Box<[Boundary]>,
}
