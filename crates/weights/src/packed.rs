//! The packed cache: a file of packed weights beside the model, so that the next start does not pack again.
//!
//! ```text
//! 0      "GRISTPAN"
//! 8      bytes of the index, u64 little-endian
//! 16     SHA-256 of the index
//! 48     the index, JSON: the key (source files, ISA tier, precision) and the offset of each matrix
//!        zeros up to a multiple of 4096; then the matrices, each aligned to 4096
//! ```
//!
//! The file is as untrusted as a model: lengths and offsets are checked against its size before use. The packed weights
//! themselves are not verified, which would cost the time that the cache saves; kernels are safe with any bytes. This
//! crate does not interpret the matrices: their layout is a name and a version that the packing crate defines.

mod bundle;
mod file_key;
mod stream;
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

pub use bundle::{Bundle, BundleBytes, BundleKind, bundle_bytes, open_bundle, parse_bundle, write_bundle};
pub use file_key::FileKey;
pub(crate) use file_key::file_key;
pub use stream::Writer;
pub use write::write;

const MAGIC: [u8; 8] = *b"GRISTPAN";
/// Bytes of magic, index length and checksum.
const PRELUDE: usize = 48;
/// The largest index that is read, in bytes.
const MAX_INDEX_BYTES: u64 = 64 << 20;
/// Alignment of matrices in the file, in bytes: the page size of most machines.
const ALIGN: u64 = 4096;
/// Bytes that a thread reads at a time.
const PART: usize = 4 << 20;

/// An error of a packed cache: the file and the problem.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct Error {
    /// The path of the packed cache.
    pub path: PathBuf,
    /// Why the cache cannot be used or written.
    pub problem: Problem,
}

/// Why a packed cache does not match, is damaged, or could not be written.
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
    #[error("{0}")]
    Content(String),
    #[error("the matrix {role} is not as the model has it")]
    Matrix { role: String },
    #[error("another process is writing it")]
    Busy,
}

/// Everything that packed weights depend on. If two keys and the matrices' source offsets are equal, the packed bytes
/// are equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheKey {
    /// The version of the panel layout (`kernels::PANEL_FORMAT_VERSION`).
    pub version: u32,
    /// The name of the ISA tier.
    pub tier: String,
    /// Rows of a panel (32-bit SIMD lanes).
    pub lanes: usize,
    /// The precision (`fast`, `fine`, …), which decides the layout.
    pub precision: String,
    /// The identities of the model's files, in order.
    pub files: Vec<FileKey>,
}

/// The index entry of a packed matrix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatrixEntry {
    /// The role of the matrix in the model.
    pub role: String,
    /// The format of the source tensor.
    pub dtype: String,
    /// Rows of the matrix.
    pub rows: usize,
    /// Columns of the matrix.
    pub cols: usize,
    /// Index in [`CacheKey::files`] of the source file.
    pub file: usize,
    /// Offset of the source weights in that file, in bytes.
    pub source_start: usize,
    /// Length of the source weights, in bytes.
    pub source_bytes: usize,
    /// The name of the panel layout.
    pub layout: String,
    /// The exponent of a power of two that bounds the matrix's values, as the packing crate defines it. Absent (0) in
    /// files that predate the tiers that need it.
    #[serde(default)]
    pub power: i32,
    /// Offset of the panels from the first matrix, in bytes.
    pub start: u64,
    /// Length of the panels, in bytes.
    pub bytes: u64,
}

/// The index of a packed cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// The key of the packed weights.
    pub key: CacheKey,
    /// The entries of all matrices, in file order.
    pub slots: Vec<MatrixEntry>,
}

/// An opened packed cache, with its index read and checked.
#[derive(Debug)]
pub struct PackedFile {
    path: PathBuf,
    file: File,
    index: Index,
    /// Offset of the first matrix in the file, in bytes.
    data: u64,
}

/// The path of a packed file of this model, named by its first file and by `what` the file holds (`avx2`), beside that
/// file or in `folder`; `None` for a model in memory.
pub fn path_for(opened: &Opened, folder: Option<&Path>, what: &str) -> Option<PathBuf> {
    let first = opened.first_file()?;
    let mut name = first.file_name()?.to_owned();
    name.push(format!(".{what}.packed"));
    Some(match folder {
        Some(folder) => folder.join(name),
        None => first.with_file_name(name),
    })
}

/// As [`path_for`], beside the model's first file.
pub fn path_beside(opened: &Opened, what: &str) -> Option<PathBuf> {
    path_for(opened, None, what)
}

/// Whether a file's name is one of [`path_for`], or of such a file that is being written.
pub fn is_packed_name(name: &str) -> bool {
    name.ends_with(".packed") || name.ends_with(".packed.part")
}

impl CacheKey {
    /// Checks that this key equals `wanted`; the error names the difference.
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
    /// Parses an index, and checks that its matrices fit into `data_bytes` without overlap.
    ///
    /// # Errors
    /// Why the index is not valid.
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

/// The length of the index in bytes, and its checksum.
fn prelude(bytes: &[u8; PRELUDE], of: [u8; 8], file_bytes: u64) -> Result<(usize, [u8; 32]), Problem> {
    let (magic, rest) = bytes.split_at(MAGIC.len());
    let (length, sum) = rest.split_at(8);
    let (Ok(length), Ok(sum)) = (length.try_into(), sum.try_into()) else { return Err(Problem::Magic) };
    if magic != of {
        return Err(Problem::Magic);
    }
    let index = u64::from_le_bytes(length);
    let fits = index <= MAX_INDEX_BYTES && index <= file_bytes.saturating_sub(PRELUDE as u64);
    match usize::try_from(index) {
        Ok(length) if fits => Ok((length, sum)),
        _ => Err(Problem::Index { index, file: file_bytes }),
    }
}

/// The offset of the first matrix after an index of `length` bytes.
fn data_start(length: usize) -> u64 {
    (PRELUDE as u64 + length as u64).next_multiple_of(ALIGN)
}

/// Parses the index of a whole packed cache.
///
/// # Errors
/// Why the file is not valid.
pub fn parse(bytes: &[u8]) -> Result<Index, Problem> {
    let file_bytes = bytes.len() as u64;
    let (length, sum) = prelude(bytes.first_chunk().ok_or(Problem::Magic)?, MAGIC, file_bytes)?;
    indexed(&bytes[PRELUDE..PRELUDE + length], &sum, file_bytes)
}

/// Checks the sum of an index.
fn checked(index: &[u8], sum: &[u8; 32]) -> Result<(), Problem> {
    if Sha256::digest(index).as_slice() == sum { Ok(()) } else { Err(Problem::Checksum) }
}

fn indexed(json: &[u8], sum: &[u8; 32], file_bytes: u64) -> Result<Index, Problem> {
    checked(json, sum)?;
    // A file without matrices may end with its index.
    Index::read(json, file_bytes.saturating_sub(data_start(json.len())))
}

/// Opens the packed cache at `path`, and checks that its key is `wanted`; `None` if there is no file.
///
/// # Errors
/// Why the cache cannot be used.
pub fn open(path: &Path, wanted: &CacheKey) -> Result<Option<PackedFile>, Error> {
    // Checked before opening: opening a named pipe would block.
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
        let (length, sum) = prelude(&bytes, MAGIC, file_bytes)?;
        let mut json = vec![0; length];
        file.read_exact_at(&mut json, PRELUDE as u64)?;
        let index = indexed(&json, &sum, file_bytes)?;
        Ok(PackedFile { path: path.to_owned(), file, index, data: data_start(length) })
    }

    /// The entries of all matrices, in file order.
    pub fn slots(&self) -> &[MatrixEntry] {
        &self.index.slots
    }

    /// Maps the whole file.
    ///
    /// # Errors
    /// The system's error.
    pub fn map(&self) -> Result<Arc<Map>, Error> {
        Map::of(&self.file).map(Arc::new).map_err(|error| self.wrong(error.into()))
    }

    /// The byte range of a matrix in the file; `None` if it does not fit a usize.
    pub fn range(&self, slot: &MatrixEntry) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(self.data + slot.start).ok()?;
        Some(start..start.checked_add(usize::try_from(slot.bytes).ok()?)?)
    }

    /// Reads a matrix into `to`, which has its length, on the threads of `pool`.
    ///
    /// # Errors
    /// The system's error, or a file that was truncated meanwhile.
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

    /// An error with this file's path.
    pub fn wrong(&self, problem: Problem) -> Error {
        Error { path: self.path.clone(), problem }
    }
}

#[cfg(test)]
mod tests;
