//! Packing rows of activations as pairs of bf16: interleaved for registers, or tile by tile for AMX.

use cpu::Tier;
use cpu::simd::{Job, Simd, has_tiles};

use super::block::ROW_GROUP;
use super::source::{RUN_VALUES, RowSource};
use crate::bf16::bf16;

/// Consecutive pairs of a row in a group.
pub(crate) const PAIR_CHUNK: usize = 4;

/// Rows of an AMX tile: `cpu::simd::amx::ROWS`, which other architectures do not have.
pub(super) const AMX_TILE_ROWS: usize = 16;
/// Pairs in a row of an AMX tile.
pub(crate) const AMX_TILE_PAIRS: usize = 16;

/// Rows as interleaved pairs of bf16. A group holds [`ROW_GROUP`] rows, the last one what is left: first the [`PAIR_CHUNK`] first pairs of
/// each of its rows, then the next of each, and so on, zero-padded at the end.
#[derive(Clone, Copy)]
pub(crate) struct PairGroups<'a> {
    /// The rows, followed by any values, enough for a tile of more rows than there are.
    pub(super) pairs: &'a [[i8; 4]],
    pub(super) rows: usize,
    pub(super) row_len: usize,
}

impl<'a> PairGroups<'a> {
    /// The stream from the first pair of `row` on, and its step: the distance in pairs to the next chunk of the same row.
    #[inline(always)]
    pub(crate) fn stream(&self, row: usize) -> (&'a [[i8; 4]], usize) {
        let first = row - row % ROW_GROUP;
        let width = ROW_GROUP.min(self.rows - first);
        (&self.pairs[first * self.row_len + (row - first) * PAIR_CHUNK..], width * PAIR_CHUNK)
    }
}

/// A layout of pairs: groups of `rows` rows, the last one what is left, hold `pairs` pairs of each of their rows, then the next `pairs` of
/// each, zero-padded at the end.
#[derive(Clone, Copy)]
pub(super) struct PairShape {
    pub(super) rows: usize,
    pub(super) pairs: usize,
}

impl PairShape {
    /// The layout of [`PairGroups`].
    pub(super) const GROUPED: PairShape = PairShape { rows: ROW_GROUP, pairs: PAIR_CHUNK };

    /// The layout that `tier` multiplies: groups, or AMX tiles one after the other.
    pub(super) fn of(tier: Tier) -> PairShape {
        if has_tiles(tier) {
            PairShape { rows: AMX_TILE_ROWS, pairs: AMX_TILE_PAIRS }
        } else {
            PairShape::GROUPED
        }
    }

    /// Pairs that a row takes, padding included.
    pub(super) fn row_len(self, cols: usize) -> usize {
        cols.div_ceil(2).next_multiple_of(self.pairs)
    }
}

/// The job that rounds rows to bf16.
pub(super) struct PackBf16<'a> {
    /// The rows from the first of `out` on.
    pub(super) x: RowSource<'a>,
    pub(super) cols: usize,
    pub(super) shape: PairShape,
    /// Whole groups, the last one perhaps of fewer rows.
    pub(super) out: &'a mut [[i8; 4]],
}

impl Job for PackBf16<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (PairShape { rows, pairs }, cols) = (self.shape, self.cols);
        let row_len = self.shape.row_len(cols);
        let mut scratch = [0.0; RUN_VALUES];
        for (group, out) in self.out.chunks_mut(rows * row_len).enumerate() {
            let width = out.len() / row_len;
            for r in 0..width {
                let row = (group * rows + r) * cols;
                let row = (row, self.x.stats(s, row, cols));
                let runs = out.chunks_mut(width * RUN_VALUES / 2);
                for (from, out) in (0..cols).step_by(RUN_VALUES).zip(runs) {
                    let values = self.x.values(s, row, from, RUN_VALUES.min(cols - from), &mut scratch);
                    for (part, out) in values.chunks(2 * pairs).zip(out.chunks_exact_mut(width * pairs)) {
                        let out = &mut out[r * pairs..(r + 1) * pairs];
                        out[part.len() / 2..].fill([0; 4]);
                        // Written so that it is vectorized.
                        for (v, out) in part.iter().zip(out.as_flattened_mut().as_chunks_mut::<2>().0) {
                            let [low, high, ..] = bf16(*v).to_le_bytes();
                            *out = [low.cast_signed(), high.cast_signed()];
                        }
                    }
                }
            }
        }
    }
}
