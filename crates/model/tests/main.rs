//! The tests of this crate in one program: each program of its own would link everything again. A new file is a line
//! here.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod alone_and_together;
mod bad_input;
mod encoders;
mod families_page;
mod family_keys;
mod gemma3n;
mod gemma4;
mod hybrids;
mod keys;
mod latent;
mod models_truth;
mod packed;
mod planned_is_loaded;
mod prediction;
mod quantized;
mod qwen3next;
mod runner;
mod shapes;
mod transformers;
mod types;
