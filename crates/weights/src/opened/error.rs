//! Errors of opening a model.

use std::io;
use std::path::PathBuf;

use crate::{gguf, safetensors};

/// Why a model cannot be opened.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum Error {
    #[error("cannot read {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not a model that can be loaded: {problem}", path.display())]
    NotAModel { path: PathBuf, problem: String },
    #[error("{} is {what}", path.display())]
    Foreign { path: PathBuf, what: String },
    #[error("{} is not a valid GGUF file", path.display())]
    Gguf { path: PathBuf, source: gguf::Error },
    #[error("{} is not a valid safetensors file", path.display())]
    Safetensors { path: PathBuf, source: safetensors::Error },
    #[error("{} is not valid JSON", path.display())]
    Json { path: PathBuf, source: serde_json::Error },
    #[error("{} is not UTF-8", path.display())]
    NotUtf8 { path: PathBuf },
    #[error("{} is larger than the limit of {limit} bytes", path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    #[error("{} is not a valid shard index: {problem}", path.display())]
    Index { path: PathBuf, problem: String },
    #[error("{} is not a valid list of modules: {problem}", path.display())]
    Modules { path: PathBuf, problem: String },
    #[error("{}: {problem}", path.display())]
    Part { path: PathBuf, problem: String },
    #[error("tensor '{name}' is in {} and in {}", first.display(), second.display())]
    Duplicate { name: String, first: PathBuf, second: PathBuf },
    #[error("tensor '{name}' is listed for {} but is not in it", path.display())]
    Absent { name: String, path: PathBuf },
}
