//! The tests of this crate in one program: each program of its own would link everything again. A new file is a line here.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod abuse;
mod answers;
mod encoders;
mod endpoints;
mod extras;
mod frame;
mod grpc;
mod jobs;
mod lifetimes;
mod many_metrics;
mod many_models;
mod metrics;
mod node;
mod oip;
mod ollama;
mod operations;
mod page;
mod parts;
mod prompts;
mod refusals;
mod resume;
mod shapes;
mod sharing;
mod wire_level;
