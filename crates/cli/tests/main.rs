//! The tests of this crate in one program: each program of its own would link everything again. A new file is a line here.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod bench;
mod bench_serve;
mod encoders;
mod faults;
mod gateway;
mod gateway_command;
mod inspect;
mod models_bench_serve;
mod models_greedy;
mod models_quality;
mod models_serve;
mod operations;
mod perplexity;
mod plan;
mod repository;
mod run;
mod serve;
#[path = "../../weights/tests/served/mod.rs"]
mod served;
mod store;
mod support;
mod tokenize;
mod tune;
mod warm_starts;
