//! AMX tiles of weights and accumulators, and the micro-kernel that multiplies them.

use std::ops::Range;

use cpu::simd::Simd;
use cpu::simd::amx::{ROWS, Tiles};

use crate::activations::AMX_TILE_PAIRS as PAIRS;
use crate::tune;

/// Bytes of a tile of weights.
pub(super) const TILE_BYTES: usize = 64 * PAIRS;

/// Columns of a tile of weights.
pub(super) const TILE_COLS: usize = 2 * PAIRS;

/// Columns that are made tiles at a time: two panels of them are 16 KiB.
pub(super) const K_BLOCK: usize = tune::amx::KC;

/// Tiles of a piece of a panel.
pub(super) const TILES: usize = K_BLOCK / TILE_COLS;

/// Rows that are worth copying the weights nearer.
pub(crate) const BLOCKED_MIN_M: usize = tune::amx::BLOCKED_MIN_TILES * ROWS;

/// A piece of a panel as tiles, one after the other.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct DecodedKBlock(pub(super) [[u8; TILE_BYTES]; TILES]);

/// The sums of a tile, row by row, a cache line each.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Accumulators(pub(super) [[f32; 16]; ROWS]);

impl Accumulators {
    pub(super) const ZERO: Accumulators = Accumulators([[0.0; 16]; ROWS]);
}

/// Weights that can be made tiles, of bfloat16 unless they say otherwise.
pub(super) trait Weights {
    /// Makes tile number `tile` of those of `panel`, of `cols` columns, from column `from` on, a multiple of [`K_BLOCK`]; nothing where
    /// the panel has ended.
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
    /// What makes results of the sums of row `row`: a factor and then another, since both together may be no number.
    #[inline(always)]
    fn descale(&self, _row: usize) -> [f32; 2] {
        [1.0; 2]
    }
    /// Where those columns lie in a panel, if they are to be asked for while tiles multiply; nothing if [`Weights::decode_into`] asks by itself.
    fn byte_range(_lanes: usize, _cols: usize, _from: usize) -> Range<usize> {
        0..0
    }
}

/// Adds the products of a tile of each of `G` groups of rows with one of each of `P` panels: to sums 0 to `P - 1` those of the
/// first group, then those of the second.
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
