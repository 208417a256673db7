//! Sizes shared by the KV cache, its formats and attention.

/// Positions in a KV block.
pub const BLOCK_TOKENS: usize = 32;

/// The widest head: that of latent attention, 512 values of the latent and 64 that rotate.
pub const MAX_HEAD_DIM: usize = 576;

/// Most queries of an attention tile in registers; tiles of AMX take 16.
pub(crate) const SMALL_QUERY_TILE: usize = 8;

/// A value aligned to a cache line, so that none of its registers crosses one.
#[repr(align(64))]
pub(crate) struct CacheAligned<T>(pub(crate) T);
