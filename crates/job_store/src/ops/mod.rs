//! The operations of a store, one transaction each, in SQL that both databases share.
//!
//! Rows are locked in one order, so that transactions never wait for each other in a circle: jobs, then batches, then
//! lanes and counters, each by their keys ([`work::Work`]).

pub(crate) mod accept;
pub(crate) mod batch_lines;
pub(crate) mod batches;
pub(crate) mod claim;
pub(crate) mod documents;
pub(crate) mod files;
pub(crate) mod jobs;
pub(crate) mod leases;
pub(crate) mod parts;
pub(crate) mod stats;
pub(crate) mod sweep;
pub(crate) mod tally;
pub(crate) mod work;
