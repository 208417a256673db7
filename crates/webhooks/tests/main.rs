//! Tests of webhooks over sockets, and against other programs.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod addresses;
mod explained;
mod rebinding;
mod receiver;
mod sending;
mod signatures;
mod targets;
mod tls;
