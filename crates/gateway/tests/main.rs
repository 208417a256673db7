//! The gateway as its clients see it.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod admin;
mod cache;
mod cascade;
mod discovery;
mod docs;
mod faults;
mod litellm;
mod redaction;
mod rules;
mod support;
