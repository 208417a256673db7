//! The tests of this crate in one program: each program of its own would link everything again. A new file is a line here.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod catalog_page;
mod gguf_write;
mod models_store;
mod models_truth;
mod opened;
mod packages;
mod quantized;
mod sentence_transformers;
mod served;
mod store_http;
mod store_hub;
mod store_python;
