//! The tests of this crate in one program.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod audit;
mod book;
mod common;
mod killed;
mod ledger;
mod outage;
#[cfg(feature = "postgres")]
mod postgres;
mod rates;
mod replicas;
mod stores;
