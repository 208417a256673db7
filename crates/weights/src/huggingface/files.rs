//! Files of a model's directory, which are read whole up to a limit.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;

use crate::magic;
use crate::opened::Error;

/// Largest config or template file, in bytes.
pub(super) const MAX_CONFIG_BYTES: u64 = 16 << 20;
/// A file that is read when it is found, in bytes.
const SMALL_BYTES: u64 = 4096;
/// The file of weights that are not split.
pub(super) const SINGLE: &str = "model.safetensors";

/// The value in a JSON file; `None` if the file does not exist.
pub(super) fn json(path: &Path, limit: u64) -> Result<Option<Value>, Error> {
    let Some(bytes) = bytes(path, limit)? else { return Ok(None) };
    // serde_json limits the nesting depth.
    let value = serde_json::from_slice(&bytes);
    value.map(Some).map_err(|source| {
        let what = match bytes.is_empty() {
            true => Some("empty; download it again"),
            false => magic::html_page(&bytes),
        };
        match what {
            Some(what) => Error::Foreign { path: path.to_owned(), what: what.to_owned() },
            None => Error::Json { path: path.to_owned(), source },
        }
    })
}

/// A file that is read when it is needed: a vocabulary, which a packed tokenizer makes superfluous.
#[derive(Clone, Debug)]
pub struct LazyFile {
    path: PathBuf,
    limit: u64,
    size: u64,
    read: OnceLock<Vec<u8>>,
}

impl LazyFile {
    /// The file at `path`, of at most `limit` bytes; `None` if it does not exist.
    pub(super) fn find(path: PathBuf, limit: u64) -> Result<Option<LazyFile>, Error> {
        let Some(size) = size(&path)? else { return Ok(None) };
        if size > limit {
            return Err(Error::TooLarge { path, limit });
        }
        // What is so small may be a pointer to a file, which is told at once.
        let read = if size <= SMALL_BYTES { bytes(&path, limit)? } else { None };
        let read = read.map(OnceLock::from).unwrap_or_default();
        Ok(Some(LazyFile { path, limit, size, read }))
    }

    /// The size in bytes as it was found.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The bytes.
    ///
    /// # Errors
    /// A file that cannot be read, or has become larger than the limit.
    pub fn bytes(&self) -> Result<&[u8], Error> {
        if let Some(read) = self.read.get() {
            return Ok(read);
        }
        let gone = || Error::Io { path: self.path.clone(), source: std::io::ErrorKind::NotFound.into() };
        let read = bytes(&self.path, self.limit)?.ok_or_else(gone)?;
        Ok(self.read.get_or_init(|| read))
    }
}

/// The size of a regular file; `None` if it does not exist.
fn size(path: &Path) -> Result<Option<u64>, Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io(error)),
        // Opening a named pipe would block.
        Ok(meta) if !meta.is_file() => {
            Err(io(std::io::Error::new(std::io::ErrorKind::InvalidInput, "not a regular file")))
        }
        Ok(meta) => Ok(Some(meta.len())),
    }
}

/// The bytes of a file; `None` if it does not exist.
pub(super) fn bytes(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    if size(path)?.is_none() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    // One byte more than allowed, to notice a file that grows meanwhile.
    File::open(path).map_err(io)?.take(limit + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > limit {
        return Err(Error::TooLarge { path: path.to_owned(), limit });
    }
    if let Some(what) = magic::lfs_pointer(&bytes) {
        return Err(Error::Foreign { path: path.to_owned(), what: what.to_owned() });
    }
    Ok(Some(bytes))
}
