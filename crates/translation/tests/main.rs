//! Tests of the crate's public functions.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod head;
mod pairs;
mod requests;
mod scanner;
