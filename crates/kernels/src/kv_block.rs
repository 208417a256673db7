//! The sizes of a KV block.

/// Positions in a block.
pub const BLOCK_TOKENS: usize = 32;

/// The widest head that the kernels take.
pub const MAX_HEAD_DIM: usize = 512;

/// Queries computed together.
pub(crate) const QUERY_TILE: usize = 8;

/// Begins at a cache line, so that no register of it lies in two.
#[repr(align(64))]
pub(crate) struct CacheAligned<T>(pub(crate) T);
