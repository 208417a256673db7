//! The memory of bodies: a sum for small ones, one for large ones, and how many are read at once.

use std::sync::Arc;

use inference::Shares;

/// Bytes from which on a body is a large one.
pub(crate) const LARGE: usize = 64 << 10;

/// The memory of all bodies that are being read or worked on, in bytes.
pub(crate) struct Memory {
    pub(crate) small: Arc<Shares>,
    pub(crate) large: Arc<Shares>,
    /// Bodies that are being read, however small.
    pub(crate) reading: Arc<Shares>,
}

/// Bytes of small bodies together.
const SMALL_BYTES: usize = 16 << 20;

impl Memory {
    /// For so many bytes of large bodies together, of which one has at most `body`; `connections` bounds how many are read.
    pub(crate) fn new(bytes: usize, body: usize, connections: usize) -> Memory {
        let bytes = bytes.max(body);
        Memory {
            small: Shares::new(SMALL_BYTES, SMALL_BYTES / 2),
            large: Shares::new(bytes, (bytes / 4).max(body)),
            reading: Shares::new(connections, (connections / 4).max(1)),
        }
    }

    pub(crate) fn of(&self, bytes: usize) -> &Arc<Shares> {
        if bytes < LARGE { &self.small } else { &self.large }
    }
}
