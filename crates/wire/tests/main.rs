//! The tests of this crate in one program: each program of its own would link everything again. A new file is a line here.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]
#![recursion_limit = "256"]

mod bodies;
mod clients;
mod documented;
mod model_config;
mod node;
mod oip;
mod oip_grpc;
mod ollama;
mod ranges;
mod request_fields;
mod requests;
