//! AMX tiles of weights and accumulators, and the micro-kernel for small M and the edges of blocks; that of full blocks
//! of 2 × 2 tiles is `BlockedGemm::full_block` in `blocked.rs`.

use std::ops::Range;

use cpu::simd::Simd;
use cpu::simd::amx::{ROWS, Tiles};

use crate::activations::AMX_TILE_PAIRS as PAIRS;
use crate::tune;

/// Bytes of a tile of weights.
pub(super) const TILE_BYTES: usize = 64 * PAIRS;

/// Columns of a tile of weights.
pub(super) const TILE_COLS: usize = 2 * PAIRS;

/// KC: columns of a K-block.
pub(super) const K_BLOCK: usize = tune::KC;

/// Tiles of a K-block of one panel.
pub(super) const TILES: usize = K_BLOCK / TILE_COLS;

/// The rows from which on decoding weights into L1 pays, though they could be multiplied where they are.
pub(crate) const BLOCKED_MIN_M: usize = tune::amx::BLOCKED_MIN_TILES * ROWS;

/// A decoded K-block of one panel, tile after tile.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct DecodedKBlock(pub(super) [[u8; TILE_BYTES]; TILES]);

/// The accumulators of a tile: a row of 16, a cache line, for each row of activations.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Accumulators(pub(super) [[f32; 16]; ROWS]);

impl Accumulators {
    pub(super) const ZERO: Accumulators = Accumulators([[0.0; 16]; ROWS]);
}

/// Packed weights that can be decoded into tiles, of bf16 unless they say otherwise.
pub(super) trait Weights {
    /// Decodes tile number `tile` of the K-block of `panel` (of `cols` columns) at column `from`, a multiple of
    /// [`K_BLOCK`]; nothing past the end of the panel.
    fn decode_into<S: Simd>(
        &self,
        s: S,
        panel: &[u8],
        cols: usize,
        from: usize,
        tile: usize,
        decoded: &mut DecodedKBlock,
    );
    /// `C += A · B`
    #[inline(always)]
    fn dot<const C: usize, const A: usize, const B: usize>(&self, tiles: &Tiles) {
        tiles.dot_bf16::<C, A, B>();
    }
    /// The two scales of the results of `row`, applied one after the other, since their product may overflow.
    #[inline(always)]
    fn descale(&self, _row: usize) -> [f32; 2] {
        [1.0; 2]
    }
    /// The packed bytes of a K-block, to be prefetched while tiles multiply; empty where [`Weights::decode_into`]
    /// prefetches itself.
    fn byte_range(_lanes: usize, _cols: usize, _from: usize) -> Range<usize> {
        0..0
    }
}

/// The micro-kernel for small M and edges: a tile of each of `G` groups of rows × one of each of `P` panels.
/// Accumulators 0 to `P - 1` are those of the first group, then come those of the second.
#[inline(always)]
pub(super) fn multiply<W: Weights, const G: usize, const P: usize>(
    tiles: &Tiles,
    weights: &W,
    x: [&[[i8; 4]]; G],
    w: [&[u8]; P],
) {
    const { assert!(G * P <= 4 && G <= 2) };
    let step = 64;
    tiles.load_a::<0, _>(x[0], PAIRS, 0);
    tiles.load_b::<0, _>(w[0], step);
    weights.dot::<0, 0, 0>(tiles);
    if P > 1 {
        tiles.load_b::<1, _>(w[1 % P], step);
        weights.dot::<1, 0, 1>(tiles);
    }
    if P > 2 {
        tiles.load_b::<0, _>(w[2 % P], step);
        weights.dot::<2, 0, 0>(tiles);
        tiles.load_b::<1, _>(w[3 % P], step);
        weights.dot::<3, 0, 1>(tiles);
    }
    if G == 2 {
        tiles.load_a::<1, _>(x[1 % G], PAIRS, 0);
        if P == 1 {
            weights.dot::<1, 1, 0>(tiles);
        } else {
            weights.dot::<2, 1, 0>(tiles);
            weights.dot::<3, 1, 1>(tiles);
        }
    }
}
