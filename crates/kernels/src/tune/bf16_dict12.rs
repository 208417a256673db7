//! Dictionary-compressed bf16 weights: the register tiles and cache blocking of `gemm/bf16_dict12.rs`, for all
//! registers of 16 lanes. MR is that of the table; KC is [`super::KC`].

/// The most rows for which decoding once a register tile is faster than K-blocking: half of its time for 16 rows, three
/// quarters for 32 (Zen 5).
pub(crate) const DECODE_TILE_MAX_M: usize = 64;

/// NR in panels with K-blocking. Two: the eight accumulators of one panel do not hide the latency of two products a
/// cycle.
pub(crate) const NR_PANELS: usize = 2;

/// MC: the most rows that pass over a K-block before the next one.
pub(crate) const MC: usize = 256;

/// Prefetch distance of the weights that are decoded into a K-block, in groups of eight columns.
pub(crate) const PREFETCH_GROUPS: usize = 4;
