//! What the router is asked: the sizes of a request, its prefix chain, its class, and where it may go.

use crate::chain::Boundary;
use crate::target::TargetId;

/// The class of a request, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// May use rented machines at once.
    Urgent,
    /// Before `Standard`.
    Premium,
    /// The default.
    Standard,
    /// Fills idle time; never leaves because it would wait.
    Batch,
}

impl Class {
    /// All classes, the most urgent first.
    pub const ALL: [Class; 4] = [Class::Urgent, Class::Premium, Class::Standard, Class::Batch];

    /// The class's number, 0 for the most urgent.
    #[must_use]
    pub fn rank(self) -> usize {
        self as usize
    }
}

/// A request for a target.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// Prompt tokens, exact or estimated.
    pub prompt_tokens: u64,
    /// Upper bound of the answer's tokens.
    pub max_tokens: u64,
    /// Boundaries of the prompt, from the first to the last ([`crate::Chain`]).
    pub chain: &'a [Boundary],
    /// A hash that all requests of a conversation share ([`crate::Chain::affinity`]); 0 for none.
    pub affinity: u64,
    /// Class.
    pub class: Class,
    /// Hash of the tenant, for learned answer lengths.
    pub tenant: u64,
    /// Whether a target may be used: label, budget, not tried before.
    pub allowed: &'a dyn Fn(TargetId) -> bool,
    /// Whether the request may go to rented and metered targets.
    pub may_leave: bool,
}

impl Ask<'_> {
    /// A standard request of these sizes that may go anywhere, without a chain.
    #[must_use]
    pub fn of_size(prompt_tokens: u64, max_tokens: u64) -> Ask<'static> {
        Ask {
            prompt_tokens,
            max_tokens,
            chain: &[],
            affinity: 0,
            class: Class::Standard,
            tenant: 0,
            allowed: &|_| true,
            may_leave: true,
        }
    }
}
