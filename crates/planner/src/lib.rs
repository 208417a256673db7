//! Capacity planning: the cost of serving a model, the machines needed, and the cheapest way to serve it.
//!
//! The crate is pure arithmetic: numbers in, numbers out, and an error that names the field of a value out of range.
//! Time is simulated, random numbers come from a seed, prices and machines from two shipped tables that a plan extends.
//! So anyone can recompute every result from the plan alone.
//!
//! Deliberately absent: files, clocks, threads, terminals. `cli` reads the plan, measures the machine and draws.

pub mod capacity;
pub mod choose;
pub mod cost;
mod error;
pub mod farm;
pub mod fleet;
pub mod hybrid;
mod money;
pub mod plan;
mod random;
pub mod sensitivity;
pub mod step;
pub mod tables;
pub mod tco;
pub mod volume;

pub use capacity::Capacity;
pub use error::Error;
pub use money::{Currency, Money, thousands};
pub use plan::Plan;
