//! The gateway as its clients see it.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod faults;
mod rules;
mod litellm;
mod support;
