//! A seeded simulation of clients, routers, nodes and faults, in simulated time.
//!
//! Nodes batch continuously with step times by rows and keep prefix caches. Clients hold conversations or send single
//! requests. Several routers, the replicas of a gateway, send them on without telling each other anything. Retries
//! follow [`crate::retry`]. Everything is decided by the code that serves.
//!
//! Not modelled: the network (an answer and its record arrive at once), and speculative decoding.

mod attempts;
mod load;
mod node;
mod report;
#[cfg(test)]
mod tests;
mod world;

pub use load::{Arrivals, Chats, Load};
pub use node::NodeSpec;
pub use report::{NodeReport, PeriodReport, Report, quantile};
pub use world::{Fault, FaultKind, Scenario, run};
