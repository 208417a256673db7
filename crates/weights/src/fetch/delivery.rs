//! What is requested from a source, and what it returns.

use super::error::Error;

/// Largest file that is downloaded if its size is not known in advance: 1 TiB.
pub const MAX_FILE_BYTES: u64 = 1 << 40;

/// A file with known length and hash.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Pinned {
    /// Path within the model, `/` between its parts.
    pub name: String,
    /// Lower-case hex SHA-256.
    pub sha256: String,
    /// Exact length, in bytes.
    pub size_bytes: u64,
}

/// A small text file of the catalog's, for a source that lacks it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InlineFile {
    /// Path within the model, `/` between its parts.
    pub name: String,
    /// Where the text is from.
    pub from: String,
    /// The content.
    pub text: String,
}

/// The files that are requested from a source.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestedFiles {
    /// Name under which a single-file model is stored; `None` for the source's own name.
    pub(crate) file: Option<String>,
    /// Files with known hashes; all of them must be received.
    pub(crate) pinned: Vec<Pinned>,
    /// Files that are written beside those received, where the source lacks them.
    pub(crate) inline: Vec<InlineFile>,
}

impl RequestedFiles {
    pub(crate) fn pin(&self, name: &str) -> Option<&Pinned> {
        self.pinned.iter().find(|pin| pin.name == name)
    }
}

/// How a file's hash was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Checked {
    /// Against the catalog, or the `#sha256=` of a URL.
    Pinned,
    /// Against the hash that the hub reports.
    Hub,
    /// Not at all: the hash of the received bytes was recorded, to detect later damage.
    Recorded,
}

/// A completely received file.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedFile {
    pub(crate) name: String,
    pub(crate) sha256: String,
    pub(crate) size_bytes: u64,
    pub(crate) checked: Checked,
}

/// The files of a downloaded model.
#[derive(Debug)]
pub(crate) struct FetchedModel {
    /// The source with its revision pinned.
    pub(crate) origin: String,
    /// The file to open; `None` for a directory.
    pub(crate) file: Option<String>,
    pub(crate) files: Vec<ReceivedFile>,
    /// Bytes that were downloaded in this run.
    pub(crate) network_bytes: u64,
}

/// Compares a received file's hash and length with the expected ones.
pub(crate) fn check(pin: &Pinned, sha256: &str, size_bytes: u64) -> Result<(), Error> {
    if size_bytes != pin.size_bytes {
        return Err(Error::Size { file: pin.name.clone(), got: size_bytes, want: pin.size_bytes });
    }
    if sha256 != pin.sha256 {
        return Err(Error::Hash { file: pin.name.clone(), got: sha256.to_owned(), want: pin.sha256.clone() });
    }
    Ok(())
}
