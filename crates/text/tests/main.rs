//! The tests of this crate in one program: each program of its own would link everything again. A new file is a line here.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod answers;
mod conversations;
mod encoders;
mod entities;
mod hostile;
mod models_gguf;
mod models_json;
mod models_real;
mod models_templates;
mod models_words;
mod packed;
mod prompts;
mod required_calls;
mod schema_faults;
mod schema_keywords;
mod schema_walks;
mod schemas;
mod support;
mod templates;
mod tiny;
