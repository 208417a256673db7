//! Why a run cannot begin or go on.

use std::io;
use std::path::{Path, PathBuf};

/// Why a run cannot begin or go on. What was finished before is in the journal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options contradict each other or the input.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read or written.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// What was tried, as a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// No space is left.
    #[error(
        "the disk is full at {0}; free space and run the same command again: it goes on where it stopped"
    )]
    Full(PathBuf),
    /// The journal cannot be read or written.
    #[error("journal {path}: {why}")]
    Journal {
        /// The journal.
        path: PathBuf,
        /// The database's reason.
        why: String,
    },
    /// Another process runs on the same journal.
    #[error("journal {path} is in use by process {pid}")]
    InUse {
        /// The journal.
        path: PathBuf,
        /// The process, or `unknown`.
        pid: String,
    },
    /// The journal is of another run.
    #[error("journal {path} is of another run: {}; --force-new throws it away", .differences.join("; "))]
    Differs {
        /// The journal.
        path: PathBuf,
        /// What differs, a sentence each.
        differences: Vec<String>,
    },
    /// The output exists and is not of this run.
    #[error("{path} exists and {why}; --force-new overwrites it")]
    OutputExists {
        /// The output.
        path: PathBuf,
        /// Why it is not taken as the output of this run.
        why: String,
    },
    /// The input is not what it was when the run began.
    #[error("{0} was changed while it was being read")]
    InputChanged(PathBuf),
    /// Stopped while the input was being read, before any request was run.
    #[error("stopped while the input was being read")]
    Cancelled,
    /// A part of the run ended unexpectedly.
    #[error("a part of the run ended unexpectedly: {0}")]
    Internal(String),
}

impl Error {
    /// Makes an error of what the system said.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full(path),
            _ => Error::Io { what, path, source },
        }
    }
}
