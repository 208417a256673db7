//! Tests of whole models, against what ONNX Runtime and the standard's own tests say.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod bad;
mod fixtures;
mod models;
mod nodes;
mod write;
