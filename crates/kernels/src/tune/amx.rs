//! AMX, measured on Sapphire Rapids (2 MiB L2, 48 KiB L1) and Granite Rapids: the cache blocking of
//! `kernels/amx/blocked.rs`. KC is [`super::KC`].

/// MC: rows of an output block, whose accumulators stay in L2.
pub(crate) const MC: usize = 512;

/// NC in panels of 16 outputs: what a task should have, for few reloads of its activations from L3 or memory. 512 rows
/// × 16 panels of accumulators are 512 KiB.
pub(crate) const NC_PANELS: usize = 16;

/// NC in panels below [`BLOCKED_MIN_TILES`] tiles of rows: weights are then read in the order of memory.
pub(crate) const NC_PANELS_SMALL_M: usize = 2;

/// Tiles of 16 rows from which on bf16 weights are copied into the L1 cache instead of being multiplied where they lie.
pub(crate) const BLOCKED_MIN_TILES: usize = 4;

/// NR in panels for a single tile of rows of bf16 weights (M ≤ 16): fewer accumulators would not hide latency.
pub(crate) const GEMV_PANELS: usize = 4;

/// Bytes of activations that stay in L2 besides accumulators and weights. Beyond, they are prefetched.
pub(crate) const L2_ACTIVATION_BYTES: usize = 3 << 19;
