//! A target that may be used, as policies look at it, and the choice of one.

use std::cmp::Ordering;

use crate::breaker::Gate;
use crate::estimate::Estimate;

/// Seconds that a failed attempt costs beside its own time.
const FAILURE_S: f64 = 1.0;

/// Why a target was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No other could be used.
    OnlyOne,
    /// Its prefix cache saves the most.
    CachedPrefix,
    /// Near the least time, and the conversation's own by rendezvous.
    Affinity,
    /// The least expected time, or near it and the less loaded of two.
    LeastTime,
    /// The rule of a simple policy.
    Policy,
    /// One request tries a target that had failed.
    Probe,
    /// Own targets would miss the service level.
    Overflow,
    /// No own target can be used.
    NoOwn,
    /// A second attempt beside a slow one.
    Hedge,
}

/// A target that may be used, with what a policy looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) slot: u32,
    pub(crate) gate: Gate,
    pub(crate) weight: u32,
    /// Requests of this router in flight there.
    pub(crate) in_flight: u32,
    /// Requests believed to be there, those of others included.
    pub(crate) requests: f64,
    /// Failures to expect before an answer.
    pub(crate) failures: f64,
    /// Rendezvous score for the conversation; 0 without one.
    pub(crate) affinity: f64,
    pub(crate) turn_weight: i64,
    /// Boundaries of the prompt that the target holds.
    pub(crate) depth: u32,
    /// The same, if they are more than the start that it shares with other conversations; else 0.
    pub(crate) own_depth: u32,
    /// Prompt tokens that its cache is expected to hold.
    pub(crate) cached: f64,
    /// Prompt tokens that the index does not know of but that the target may hold.
    pub(crate) assumed: u64,
    pub(crate) estimate: Estimate,
    /// Price of the request in nano units, if known.
    pub(crate) price: Option<u64>,
}

impl Candidate {
    pub(crate) fn first_token_s(&self) -> f64 {
        self.estimate.wait_s + self.estimate.prefill_s
    }

    /// The order in which targets are a conversation's own: that which holds the most of it, then by rendezvous.
    pub(crate) fn by_affinity(&self, other: &Candidate) -> Ordering {
        self.own_depth.cmp(&other.own_depth).then(self.affinity.total_cmp(&other.affinity))
    }

    pub(crate) fn completion_s(&self) -> f64 {
        self.first_token_s() + self.estimate.decode_s
    }

    /// Seconds that the request costs everyone: its own, those by which it delays others, and attempts that fail.
    pub(crate) fn cost_s(&self) -> f64 {
        (self.completion_s() + self.estimate.delay_s) * (1.0 + self.failures) + self.failures * FAILURE_S
    }
}

/// A chosen candidate, by its index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) at: usize,
    pub(crate) reason: Reason,
}

impl Choice {
    pub(crate) fn by_policy(at: usize) -> Choice {
        Choice { at, reason: Reason::Policy }
    }
}
