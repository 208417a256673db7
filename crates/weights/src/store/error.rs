//! Errors of the model store.

use std::path::PathBuf;

use crate::fetch;

/// Why a model could not be resolved, pulled or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither a catalog name nor a path.
    #[error("no model {model:?}: it is neither in the catalog nor a file{hint}")]
    Unknown {
        /// The model as the user wrote it.
        model: String,
        /// Similar names; empty, or begins with `; `.
        hint: String,
    },
    /// A path that does not exist.
    #[error("no such file or directory: {path}", path = path.display())]
    NoSuchPath {
        /// The path as the user wrote it.
        path: PathBuf,
    },
    /// A malformed source.
    #[error("{source_text:?} is no source: {reason}")]
    BadSource {
        /// The source as the user wrote it.
        source_text: String,
        /// Why the source is malformed.
        reason: String,
    },
    /// Every source failed.
    #[error("cannot pull {model}: {}", list(failures))]
    AllFailed {
        /// Model as the user knows it.
        model: String,
        /// Each source as text, with its failure, in the order in which they were tried.
        failures: Vec<(String, fetch::Error)>,
    },
    /// Another process held the model's lock for too long.
    #[error("another process has been pulling or removing {model} for {waited_s} s; its lock is {lock}", lock = lock.display())]
    Locked {
        /// Model as the user knows it.
        model: String,
        /// How long this process waited, in seconds.
        waited_s: u64,
        /// The lock file.
        lock: PathBuf,
    },
    /// Nothing by that name is installed.
    #[error("{model:?} is not installed{hint}")]
    NotInstalled {
        /// The model as the user wrote it.
        model: String,
        /// What is installed instead; empty, or begins with punctuation.
        hint: String,
    },
    /// Neither `GRISTMILL_HOME` nor `XDG_CACHE_HOME` nor `HOME` says where models are kept.
    #[error("no place for models: set GRISTMILL_HOME, or HOME")]
    NoHome,
    /// A failure that does not depend on the source, such as a full disk.
    #[error(transparent)]
    Fetch(#[from] fetch::Error),
}

fn list(failures: &[(String, fetch::Error)]) -> String {
    if failures.is_empty() {
        return "it has no source".to_owned();
    }
    let each: Vec<String> = failures.iter().map(|(source, error)| format!("[{source}] {error}")).collect();
    each.join("; ")
}
