//! Rows of activations as pairs of bf16.

use cpu::Tier;
use cpu::simd::{Job, Simd, has_tiles};

use super::block::ROW_GROUP;
use super::source::{RUN_VALUES, RowSource};
use crate::bf16::bf16;

/// Pairs of bfloat16 of a row that lie together in a group.
pub(crate) const PAIR_CHUNK: usize = 4;

/// Rows of a tile: `cpu::simd::amx::ROWS`, which other architectures do not have.
pub(super) const AMX_TILE_ROWS: usize = 16;
/// Pairs of bfloat16 in a row of a tile.
pub(crate) const AMX_TILE_PAIRS: usize = 16;

/// Rows as pairs of bfloat16, where they do not lie in tiles. A group holds [`ROW_GROUP`] rows, the last one what is left: first the [`PAIR_CHUNK`]
/// first pairs of each of its rows, then the next of each, and so on, the last ones filled up with zeros.
#[derive(Clone, Copy)]
pub(crate) struct PairGroups<'a> {
    /// The rows, and enough of whatever after them for a tile of more rows than there are.
    pub(super) pairs: &'a [[i8; 4]],
    pub(super) rows: usize,
    pub(super) row_len: usize,
}

impl<'a> PairGroups<'a> {
    /// The stream that begins with the first pairs of `row`, and its step: how many pairs on the next ones of the same row lie.
    #[inline(always)]
    pub(crate) fn stream(&self, row: usize) -> (&'a [[i8; 4]], usize) {
        let first = row - row % ROW_GROUP;
        let width = ROW_GROUP.min(self.rows - first);
        (&self.pairs[first * self.row_len + (row - first) * PAIR_CHUNK..], width * PAIR_CHUNK)
    }
}

/// How pairs of bfloat16 lie: groups of `rows` rows, the last one what is left, hold `pairs` pairs of each of their rows, then the next
/// `pairs` of each, the last of them filled up with zeros.
#[derive(Clone, Copy)]
pub(super) struct PairShape {
    pub(super) rows: usize,
    pub(super) pairs: usize,
}

impl PairShape {
    /// As [`PairGroups`].
    pub(super) const GROUPED: PairShape = PairShape { rows: ROW_GROUP, pairs: PAIR_CHUNK };

    /// In groups, or where the tier has tiles, tile after tile.
    pub(super) fn of(tier: Tier) -> PairShape {
        if has_tiles(tier) {
            PairShape { rows: AMX_TILE_ROWS, pairs: AMX_TILE_PAIRS }
        } else {
            PairShape::GROUPED
        }
    }

    /// Pairs that a row takes.
    pub(super) fn row_len(self, cols: usize) -> usize {
        cols.div_ceil(2).next_multiple_of(self.pairs)
    }
}

/// Rounds rows to bfloat16.
pub(super) struct PackBf16<'a> {
    /// From the first row of `out` on.
    pub(super) x: RowSource<'a>,
    pub(super) cols: usize,
    pub(super) shape: PairShape,
    /// Whole groups, or what is left at the end.
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
                        // Written so that the compiler takes a register of values at a time.
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
