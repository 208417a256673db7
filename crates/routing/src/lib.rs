//! Which upstream answers a request: the gateway's policies, and their seeded simulation.
//!
//! Everything here is arithmetic on records: expected completion from a node's step times, queue and cached prefix;
//! circuit breakers; retries by evidence; hedging; admission by class; overflow at a shadow price. The time is an
//! argument, randomness comes from a seed, so that the simulation and `plan fleet` run the code that serves.
//!
//! A [`Router`] holds the targets of one route. [`Router::dispatch`] chooses one and counts the request in flight,
//! [`Router::finished`] takes it out and learns from it; [`admission::Admission`] stands before it, [`retry`] says what
//! follows a failure.
//!
//! Deliberately absent: HTTP, clocks, threads, tokens of any model, money that is spent (`ledger`).

pub mod admission;
mod ask;
mod breaker;
mod candidate;
mod chain;
mod decision;
mod estimate;
mod failure;
mod flight;
mod hedge;
mod lengths;
mod line;
mod lru;
mod overflow;
mod policies;
mod prefix;
mod random;
mod rendezvous;
pub mod retry;
mod router;
pub mod simulator;
mod state;
mod target;
mod verdict;

pub use ask::{Ask, Class};
pub use breaker::Gate;
pub use candidate::Reason;
pub use chain::{BYTES_PER_TOKEN, Boundary, Chain, MAX_BOUNDARIES};
pub use failure::{Answer, Failure, Limit, Outcome};
pub use flight::Flight;
pub use hedge::HedgePolicy;
pub use overflow::OverflowPolicy;
pub use policies::Method;
pub use policies::least_connections::MaxFails;
pub use random::Random;
pub use rendezvous::LOAD_BOUND;
pub use router::{Policy, Router, TargetStatus};
pub use target::{NodeRecord, Price, STEP_POINTS, Speed, StepTimes, Target, TargetId, Tier};
pub use verdict::{Considered, Refused, Verdict};
