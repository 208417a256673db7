//! The tests of this crate in one program: each program of its own would link everything again. A new file is a line here.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod common;
mod encoder;
mod fixtures_batch;
mod handle;
mod many_engines;
mod models_batch;
mod models_speculation;
mod models_structured;
mod prediction;
mod prompt_logprobs;
mod resume;
mod stops;
mod structured;
