//! The APIs of jobs over a store in a folder and an executor that computes nothing.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod batches;
mod events;
mod files;
mod hooks;
mod messages;
mod own;
mod rows;
mod support;
