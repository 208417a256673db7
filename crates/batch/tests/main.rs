//! Runs against an invented server: whole, killed, resumed, and with bad input.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod abuse;
mod basics;
#[cfg(feature = "parquet")]
mod columnar;
mod fake;
mod faults;
mod killed;
mod memory;
mod plans;
mod tables;
