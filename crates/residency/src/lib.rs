//! Which model is loaded, which is unloaded for it, and who must wait: a plain table, with the time (since any
//! start, the same for all calls) as an argument. The server
//! loads by it (`service::registry`), and the planner simulates it (`planner::farm`).
//!
//! When the models that are wanted do not fit together, they take turns (decision 57). A model that is loaded answers
//! everything that comes for it; the requests for the others wait and are then answered together. It goes
//!
//! * when it has been idle for as long as its load took: waiting for its next request longer would cost more than loading
//!   it again (the rule of ski rental, at most twice the cost of the best choice in hindsight); or
//! * when it has been loaded for [`RESIDENCY`] times its load: from then on it takes no new requests, finishes what it has,
//!   and makes room for whoever has waited longest, so that loads take a bounded share of the time and nobody starves.
//!
//! Models that may go do so in the order of their worth, the least first: requests in the last minutes × the duration of a load ÷
//! bytes, the time that a byte of memory saves (GreedyDual-Size-Frequency, Cherkasova, 1998; decision 63).
//!
//! A model can be replaced by another generation of itself, which is loaded and checked beside it as a *candidate*, and then
//! takes its names; the old one is *retired*: it finishes what it has and is unloaded.

//!
//! Deliberately absent: threads, clocks, loaders, waiting. Whoever owns the table does what its answers say, and tells it.

mod entry;
#[cfg(test)]
mod simulator;
mod table;
#[cfg(test)]
mod tests;
mod together;

pub use entry::{Entry, Facts, ModelId, RESIDENCY, Standing, State};
pub use table::{Answer, Table};
pub use together::Together;
