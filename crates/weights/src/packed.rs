//! Packed weights kept in a file beside the model, so that the next start need not pack them.
//!
//! ```text
//! 0      "GRISTPAN"
//! 8      bytes of the index, u64 little-endian
//! 16     SHA-256 of the index
//! 48     the index, JSON: what was packed, of which files, for which machine, and where each matrix lies
//!        zeros up to a multiple of 4096; the matrices, each from such a multiple on
//! ```
//!
//! The file is as untrusted as a model: lengths and places are checked against its size before they are used. The packed
//! weights themselves are not looked at, for that would cost what they save; kernels take any bytes. What the matrices
//! mean is not known in this room: their layout is a name and a version of whoever packed them.

mod file_key;
mod write;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cpu::{Map, Pool};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Opened;

pub use file_key::FileKey;
pub(crate) use file_key::file_key;
pub use write::write;

const MAGIC: [u8; 8] = *b"GRISTPAN";
/// Magic, length and checksum.
const PRELUDE: usize = 48;
/// A longer index is of no model.
const MAX_INDEX_BYTES: u64 = 64 << 20;
/// Matrices begin at multiples of this, the small page of most machines.
const ALIGN: u64 = 4096;
/// What a thread reads at a time.
const PART: usize = 4 << 20;

/// Why a file of packed weights is of no use, or could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct Error {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a file of packed weights.
#[allow(missing_docs, reason = "each variant's message says what it is")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("not a regular file")]
    NotAFile,
    #[error("no file of packed weights")]
    Magic,
    #[error("an index of {index} bytes does not fit into {file} bytes")]
    Index { index: u64, file: u64 },
    #[error("the index is damaged")]
    Checksum,
    #[error("the index cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the matrix {role} lies outside the file or in another one")]
    Place { role: String },
    #[error("{have} bytes of matrices, {want} by its index")]
    Length { have: u64, want: u64 },
    #[error("packed by another version of the program (layout {found}, this one's is {wanted})")]
    Version { found: u32, wanted: u32 },
    #[error("packed for {found}, not for {wanted}")]
    Machine { found: String, wanted: String },
    #[error("packed from other weights than the model's files hold now")]
    Model,
    #[error("the matrix {role} is not as the model has it")]
    Matrix { role: String },
    #[error("another process is writing it")]
    Busy,
}

/// What packed weights depend on. Packed weights of an equal key, and of matrices from the same places, are equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheKey {
    /// The version of the layout of panels.
    pub version: u32,
    /// The tier that they are for.
    pub tier: String,
    /// Rows interleaved in a panel.
    pub lanes: usize,
    /// How exactly is computed with them.
    pub precision: String,
    /// The model's files, in order.
    pub files: Vec<FileKey>,
}

/// A packed matrix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatrixEntry {
    /// What it is for.
    pub role: String,
    /// Format in the model's file.
    pub dtype: String,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Number of the model's file that it is from.
    pub file: usize,
    /// Its first byte there.
    pub source_start: usize,
    /// How many there are.
    pub source_bytes: usize,
    /// What the panels hold.
    pub layout: String,
    /// A power of two that their numbers are below, as whoever packed them means it. Not in files that are older than the tiers which
    /// ask for it.
    #[serde(default)]
    pub power: i32,
    /// The panels' first byte, counted from where the first matrix is.
    pub start: u64,
    /// Bytes of panels.
    pub bytes: u64,
}

/// What a file of packed weights holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// What the packed weights depend on.
    pub key: CacheKey,
    /// Every matrix, in the order of the file.
    pub slots: Vec<MatrixEntry>,
}

/// A file of packed weights, its index read and checked.
#[derive(Debug)]
pub struct PackedFile {
    path: PathBuf,
    file: File,
    index: Index,
    /// Where the first matrix begins.
    data: u64,
}

/// Where packed weights of this model for `tier` are kept: beside its first file. None if the model is on no disk.
pub fn path_beside(opened: &Opened, tier: &str) -> Option<PathBuf> {
    let first = opened.first_file()?;
    let mut name = first.file_name()?.to_owned();
    name.push(format!(".{tier}.packed"));
    Some(first.with_file_name(name))
}

impl CacheKey {
    /// Whether this is the key `wanted`, or what is different about it.
    fn check(&self, wanted: &CacheKey) -> Result<(), Problem> {
        let machine = |key: &CacheKey| format!("{} ({} lanes, {})", key.tier, key.lanes, key.precision);
        if self.version != wanted.version {
            Err(Problem::Version { found: self.version, wanted: wanted.version })
        } else if machine(self) != machine(wanted) {
            Err(Problem::Machine { found: machine(self), wanted: machine(wanted) })
        } else if self.files != wanted.files {
            Err(Problem::Model)
        } else {
            Ok(())
        }
    }
}

impl Index {
    /// Reads an index and checks that its matrices fit into `data_bytes`, one behind the other.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(json: &[u8], data_bytes: u64) -> Result<Index, Problem> {
        let index: Index = serde_json::from_slice(json)?;
        let mut end = 0_u64;
        for slot in &index.slots {
            let place = || Problem::Place { role: slot.role.clone() };
            if slot.start % ALIGN != 0 || slot.start < end {
                return Err(place());
            }
            end = slot.start.checked_add(slot.bytes).filter(|end| *end <= data_bytes).ok_or_else(place)?;
        }
        if end != data_bytes {
            return Err(Problem::Length { have: data_bytes, want: end });
        }
        Ok(index)
    }
}

/// The number of bytes of the index that follows, and its checksum.
fn prelude(bytes: &[u8; PRELUDE], file_bytes: u64) -> Result<(usize, [u8; 32]), Problem> {
    let (magic, rest) = bytes.split_at(MAGIC.len());
    let (length, sum) = rest.split_at(8);
    let (Ok(length), Ok(sum)) = (length.try_into(), sum.try_into()) else { return Err(Problem::Magic) };
    if magic != MAGIC {
        return Err(Problem::Magic);
    }
    let index = u64::from_le_bytes(length);
    let fits = index <= MAX_INDEX_BYTES && index <= file_bytes.saturating_sub(PRELUDE as u64);
    match usize::try_from(index) {
        Ok(length) if fits => Ok((length, sum)),
        _ => Err(Problem::Index { index, file: file_bytes }),
    }
}

/// Where the matrices begin behind an index of `length` bytes.
fn data_start(length: usize) -> u64 {
    (PRELUDE as u64 + length as u64).next_multiple_of(ALIGN)
}

/// Reads the index of a file that is `bytes`.
///
/// # Errors
/// What is wrong with it.
pub fn parse(bytes: &[u8]) -> Result<Index, Problem> {
    let file_bytes = bytes.len() as u64;
    let (length, sum) = prelude(bytes.first_chunk().ok_or(Problem::Magic)?, file_bytes)?;
    indexed(&bytes[PRELUDE..PRELUDE + length], &sum, file_bytes)
}

fn indexed(json: &[u8], sum: &[u8; 32], file_bytes: u64) -> Result<Index, Problem> {
    if Sha256::digest(json).as_slice() != sum {
        return Err(Problem::Checksum);
    }
    // A file without matrices may end with its index.
    Index::read(json, file_bytes.saturating_sub(data_start(json.len())))
}

/// Opens the packed weights at `path` if there are any, and checks that they are of `wanted`.
///
/// # Errors
/// Why they are of no use.
pub fn open(path: &Path, wanted: &CacheKey) -> Result<Option<PackedFile>, Error> {
    // Looked at before opening: opening a pipe would wait for a writer that may never come.
    let regular = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata.map(|metadata| metadata.is_file()).map_err(Problem::Io),
    };
    let opened =
        regular.and_then(|regular| if regular { PackedFile::open(path) } else { Err(Problem::NotAFile) });
    let checked = opened.and_then(|packed| packed.index.key.check(wanted).map(|()| packed));
    checked.map(Some).map_err(|problem| Error { path: path.to_owned(), problem })
}

impl PackedFile {
    fn open(path: &Path) -> Result<PackedFile, Problem> {
        let file = File::open(path)?;
        let file_bytes = file.metadata()?.len();
        let mut bytes = [0; PRELUDE];
        file.read_exact_at(&mut bytes, 0).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Problem::Magic,
            _ => error.into(),
        })?;
        let (length, sum) = prelude(&bytes, file_bytes)?;
        let mut json = vec![0; length];
        file.read_exact_at(&mut json, PRELUDE as u64)?;
        let index = indexed(&json, &sum, file_bytes)?;
        Ok(PackedFile { path: path.to_owned(), file, index, data: data_start(length) })
    }

    /// Every matrix in it.
    pub fn slots(&self) -> &[MatrixEntry] {
        &self.index.slots
    }

    /// Maps the whole file.
    ///
    /// # Errors
    /// What the system says.
    pub fn map(&self) -> Result<Arc<Map>, Error> {
        Map::of(&self.file).map(Arc::new).map_err(|error| self.wrong(error.into()))
    }

    /// Where the bytes of a matrix are in the file; none if a number is beyond this machine's.
    pub fn range(&self, slot: &MatrixEntry) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(self.data + slot.start).ok()?;
        Some(start..start.checked_add(usize::try_from(slot.bytes).ok()?)?)
    }

    /// Reads a matrix into `to`, as long as it is, on the threads of `pool`.
    ///
    /// # Errors
    /// What the system says, or a file that has become shorter.
    pub fn read(&self, pool: &Pool, slot: &MatrixEntry, to: &mut [u8]) -> Result<(), Error> {
        let failed = Mutex::new(None);
        pool.chunks_mut(to, PART, &|part, to| {
            let at = self.data + slot.start + part as u64 * PART as u64;
            if let Err(error) = self.file.read_exact_at(to, at) {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        });
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.map_or(Ok(()), |error| Err(self.wrong(error.into())))
    }

    /// An error of this file.
    pub fn wrong(&self, problem: Problem) -> Error {
        Error { path: self.path.clone(), problem }
    }
}

#[cfg(test)]
mod tests;
