//! What a source is asked for, and what it delivers.

use super::error::Error;

/// Largest file that any source may deliver when nobody said its size: 1 TiB.
pub const MAX_FILE_BYTES: u64 = 1 << 40;

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
pub(crate) struct RequestedFiles {
    /// Name under which a single-file model is stored; a source names it otherwise.
    pub(crate) file: Option<String>,
    /// Files whose hash is known; they must all arrive.
    pub(crate) pinned: Vec<Pinned>,
}

impl RequestedFiles {
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
pub(crate) struct ReceivedFile {
    pub(crate) name: String,
    pub(crate) sha256: String,
    pub(crate) size_bytes: u64,
    pub(crate) checked: Checked,
}

/// All files of a model.
#[derive(Debug)]
pub(crate) struct FetchedModel {
    /// The source with its revision pinned.
    pub(crate) origin: String,
    /// The file to open; `None` for a directory.
    pub(crate) file: Option<String>,
    pub(crate) files: Vec<ReceivedFile>,
    /// Bytes that came over the network in this run.
    pub(crate) network_bytes: u64,
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
