//! The input: a stream of records, and rows that are read from them.

pub(crate) mod row;
pub(crate) mod source;
pub(crate) mod split;
