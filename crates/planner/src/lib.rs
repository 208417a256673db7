//! What it costs to serve a model, what it takes, and who would do it for less.
//!
//! The room is arithmetic: numbers in, numbers out, and an error that names the field where a number makes no sense. Time is
//! simulated, randomness comes from a seed, prices and machines from two tables that ship with it and that a plan extends. So
//! every answer can be computed again by another person from the plan alone.
//!
//! Deliberately absent: files, clocks, threads, terminals. `cli` reads the plan, measures the machine and draws.

pub mod capacity;
pub mod choose;
pub mod cost;
mod error;
pub mod fleet;
pub mod hybrid;
mod money;
pub mod plan;
pub mod sensitivity;
pub mod step;
pub mod tables;
pub mod tco;
pub mod volume;

pub use capacity::Capacity;
pub use error::Error;
pub use money::{Currency, Money, thousands};
pub use plan::Plan;
