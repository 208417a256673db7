//! The journal of a run: what its lines are, and which of them are finished.

pub(crate) mod header;
pub(crate) mod lock;
pub(crate) mod rows;
pub(crate) mod store;
