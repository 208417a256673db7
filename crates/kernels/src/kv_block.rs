//! Sizes shared by the KV cache, its formats and attention.

/// Positions in a KV block.
pub const BLOCK_TOKENS: usize = 32;

/// The widest head.
pub const MAX_HEAD_DIM: usize = 512;

/// Most queries of an attention tile in registers; tiles of AMX take 16.
pub(crate) const SMALL_QUERY_TILE: usize = 8;

/// A value aligned to a cache line, so that none of its registers crosses one.
#[repr(align(64))]
pub(crate) struct CacheAligned<T>(pub(crate) T);
