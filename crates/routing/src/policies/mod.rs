//! Policies of choosing among the targets that may be used, one file each.

pub(crate) mod expected_completion;
pub(crate) mod least_connections;
pub(crate) mod round_robin;
pub(crate) mod sticky;
pub(crate) mod weighted;

use least_connections::MaxFails;

/// How a target is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// The least expected seconds to the end of the answer, with affinity among near ties.
    #[default]
    ExpectedCompletion,
    /// The fewest requests in flight for the weight, with nginx's `max_fails` in place of the circuit breaker.
    LeastConnections(MaxFails),
    /// One after the other.
    RoundRobin,
    /// One after the other, as often as their weights say.
    Weighted,
    /// The conversation's own target, within a bounded load.
    Sticky,
}
