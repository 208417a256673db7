//! Files with an index and data that another crate defines, written and read as the packed cache is.
//!
//! ```text
//! 0      the magic of its kind
//! 8      bytes of the index, u64 little-endian
//! 16     SHA-256 of the index
//! 48     the index; zeros up to a multiple of 4096; then the data
//! ```

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use cpu::Map;
use sha2::{Digest, Sha256};

use super::write::{Content, write_content};
use super::{Error, PRELUDE, Problem, checked, data_start, prelude};

/// A kind of file.
#[derive(Clone, Copy, Debug)]
pub struct BundleKind {
    /// The first bytes of the file.
    pub magic: [u8; 8],
    /// The longest file, in bytes.
    pub max_bytes: u64,
}

/// The data of a file: mapped, or in memory.
#[derive(Debug)]
pub struct BundleBytes(Memory);

#[derive(Debug)]
enum Memory {
    /// The range lies inside the file.
    Mapped(Arc<Map>, Range<usize>),
    Owned(Vec<u8>, usize),
}

impl From<Vec<u8>> for BundleBytes {
    fn from(bytes: Vec<u8>) -> BundleBytes {
        BundleBytes(Memory::Owned(bytes, 0))
    }
}

impl Deref for BundleBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Mapped(map, range) => map.get(range.clone()).unwrap_or_default(),
            Memory::Owned(bytes, start) => bytes.get(*start..).unwrap_or_default(),
        }
    }
}

/// An opened file.
#[derive(Debug)]
pub struct Bundle {
    /// The index, whose checksum was right.
    pub index: Vec<u8>,
    /// The data, which nothing vouches for.
    pub data: BundleBytes,
}

/// The index of a whole file, and where its data begins.
fn parts(bytes: &[u8], kind: BundleKind) -> Result<(&[u8], usize), Problem> {
    let first = bytes.first_chunk().ok_or(Problem::Magic)?;
    let (length, sum) = prelude(first, kind.magic, bytes.len() as u64)?;
    let index = bytes.get(PRELUDE..PRELUDE + length).ok_or(Problem::Checksum)?;
    checked(index, &sum)?;
    let start = usize::try_from(data_start(length)).unwrap_or(usize::MAX);
    Ok((index, start.min(bytes.len())))
}

/// Reads a whole file that is in memory.
///
/// # Errors
/// Why the file is not one.
pub fn parse_bundle(bytes: Vec<u8>, kind: BundleKind) -> Result<Bundle, Problem> {
    let (index, start) = parts(&bytes, kind)?;
    Ok(Bundle { index: index.to_vec(), data: BundleBytes(Memory::Owned(bytes, start)) })
}

/// Opens the file at `path`, mapped or read into memory; `None` if there is no file.
///
/// # Errors
/// Why the file cannot be used.
pub fn open_bundle(path: &Path, kind: BundleKind, mapped: bool) -> Result<Option<Bundle>, Error> {
    let opened = || {
        // Checked before opening: opening a named pipe would block.
        let metadata = std::fs::metadata(path)?;
        if !metadata.is_file() {
            return Err(Problem::NotAFile);
        }
        if metadata.len() > kind.max_bytes {
            let (bytes, limit) = (metadata.len(), kind.max_bytes);
            return Err(Problem::Content(format!("has {bytes} bytes; the limit is {limit}")));
        }
        if !mapped {
            return parse_bundle(std::fs::read(path)?, kind);
        }
        let map = Arc::new(Map::of(&File::open(path)?)?);
        let (index, start) = parts(&map, kind)?;
        let (index, range) = (index.to_vec(), start..map.len());
        Ok(Bundle { index, data: BundleBytes(Memory::Mapped(map, range)) })
    };
    match opened() {
        Ok(bundle) => Ok(Some(bundle)),
        Err(Problem::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(problem) => Err(Error { path: path.to_owned(), problem }),
    }
}

/// The bytes of a whole file.
#[must_use]
pub fn bundle_bytes(kind: BundleKind, index: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = kind.magic.to_vec();
    bytes.extend((index.len() as u64).to_le_bytes());
    bytes.extend(Sha256::digest(index));
    bytes.extend(index);
    bytes.resize(usize::try_from(data_start(index.len())).unwrap_or(usize::MAX), 0);
    bytes.extend(data);
    bytes
}

/// Writes a file whole or not at all, readable by those who may read `model`; returns its length in bytes.
///
/// # Errors
/// As [`super::write`].
pub fn write_bundle(
    path: &Path,
    model: &Path,
    kind: BundleKind,
    index: &[u8],
    data: &[u8],
) -> Result<u64, Error> {
    let content = Content { magic: kind.magic, index, sections: &[(0, data)] };
    write_content(path, model, &content).map_err(|problem| Error { path: path.to_owned(), problem })
}
