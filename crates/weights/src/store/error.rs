//! Why there is no model.

use std::path::PathBuf;

use crate::fetch;

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither a name nor a path.
    #[error("no model {model:?}: it is neither in the catalog nor a file{hint}")]
    Unknown {
        /// As given.
        model: String,
        /// Names that may have been meant; empty or begins with `; `.
        hint: String,
    },
    /// A path that is not there.
    #[error("no such file or directory: {path}", path = path.display())]
    NoSuchPath {
        /// As given.
        path: PathBuf,
    },
    /// Meant as a source, but not well-formed.
    #[error("{source_text:?} is no source: {reason}")]
    BadSource {
        /// As given.
        source_text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Every source failed.
    #[error("cannot pull {model}: {}", list(failures))]
    AllFailed {
        /// Model as the user knows it.
        model: String,
        /// Each source in its written form, with its failure, in the order tried.
        failures: Vec<(String, fetch::Error)>,
    },
    /// Another process held the model for too long.
    #[error("another process has been pulling or removing {model} for {waited_s} s; its lock is {lock}", lock = lock.display())]
    Locked {
        /// Model as the user knows it.
        model: String,
        /// Seconds waited.
        waited_s: u64,
        /// The lock file.
        lock: PathBuf,
    },
    /// Nothing by that name is installed.
    #[error("{model:?} is not installed{hint}")]
    NotInstalled {
        /// As given.
        model: String,
        /// What is installed, or why this cannot be.
        hint: String,
    },
    /// Neither `GRISTMILL_HOME` nor `XDG_CACHE_HOME` nor `HOME` says where models are kept.
    #[error("no place for models: set GRISTMILL_HOME, or HOME")]
    NoHome,
    /// A step that no other source could do better.
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
