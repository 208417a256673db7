//! Tests of the fake provider over sockets.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod answers;
mod bills;
mod client;
mod faults;
mod loads;
