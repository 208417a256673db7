//! The bytes of a model's files, and parts of them that are kept when the model is dropped.

use std::ops::{Deref, Range};
use std::sync::Arc;

use cpu::Map;

/// What holds the tensors of one file.
#[derive(Debug)]
pub(super) enum Bytes {
    /// A mapped file.
    File(Map),
    /// Bytes that were made in memory.
    Memory(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::File(map) => map,
            Bytes::Memory(bytes) => bytes,
        }
    }
}

impl Bytes {
    /// Releases resident pages of a mapped file; does nothing for bytes in memory.
    pub(super) fn drop_range(&self, range: Range<usize>) {
        match self {
            Bytes::File(map) => map.drop_range(range),
            Bytes::Memory(_) => {}
        }
    }
}

/// The bytes of a tensor. Its file stays mapped as long as they are held, and is read from when they are looked at: what
/// [`Map`] says of files that are cut short applies.
#[derive(Clone, Debug)]
pub struct TensorBytes {
    file: Arc<Bytes>,
    range: Range<usize>,
}

impl TensorBytes {
    /// The bytes `range` of a file, which are inside it.
    pub(super) fn new(file: Arc<Bytes>, range: Range<usize>) -> TensorBytes {
        TensorBytes { file, range }
    }
}

impl Deref for TensorBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.file[self.range.clone()]
    }
}
