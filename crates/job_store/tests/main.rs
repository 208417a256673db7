//! The tests of this crate in one program.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod common;
mod killed;
mod model;
#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;
mod suite;
