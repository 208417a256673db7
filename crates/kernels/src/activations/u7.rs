//! Activations in 7 bits, unsigned, with a zero point: the other factor of weights in [`crate::int8`].
//!
//! `vpmaddubsw` adds two products of an unsigned and a signed byte in 16 bits. With 7 bits the sum cannot overflow (2 · 127 · 127 =
//! 32,258), so no code is taken apart into magnitude and sign, as eight bits need.

use cpu::simd::{Job, Simd};

use super::quantize::scale_for;
use super::source::{RUN_VALUES, RowSource};

/// Columns that share a scale and an offset; of the weights too.
pub(crate) const U7_BLOCK: usize = 64;

/// The largest code.
const TOP: f32 = 127.0;

/// 64 activations: `x ≈ scale · q + offset`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct U7Block {
    /// The codes, 0 to 127.
    pub(crate) q: [i8; U7_BLOCK],
    pub(crate) scale: f32,
    /// The value of code 0.
    pub(crate) offset: f32,
}

impl U7Block {
    /// Zeros.
    pub(super) const ZERO: U7Block = U7Block { q: [0; U7_BLOCK], scale: 0.0, offset: 0.0 };
}

/// Rows of blocks, one row after the other.
#[derive(Clone, Copy)]
pub(crate) struct U7Rows<'a> {
    pub(super) blocks: &'a [U7Block],
    pub(super) rows: usize,
    pub(super) row_len: usize,
}

impl<'a> U7Rows<'a> {
    /// The rows from `first` on.
    pub(crate) fn from(self, first: usize) -> U7Rows<'a> {
        let U7Rows { blocks, rows, row_len } = self;
        U7Rows { blocks: &blocks[first * row_len..], rows: rows - first, row_len }
    }

    /// The blocks of a row; of the last one for a row past it.
    #[inline(always)]
    pub(crate) fn row(&self, row: usize) -> &'a [U7Block] {
        &self.blocks[row.min(self.rows - 1) * self.row_len..][..self.row_len]
    }
}

/// The job that quantizes rows.
pub(super) struct QuantizeU7<'a> {
    /// The rows, at least as many as `out` has.
    pub(super) x: RowSource<'a>,
    pub(super) cols: usize,
    /// Whole rows.
    pub(super) out: &'a mut [U7Block],
}

impl Job for QuantizeU7<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let cols = self.cols;
        let mut scratch = [0.0; RUN_VALUES];
        for (row, out) in self.out.chunks_mut(cols.div_ceil(U7_BLOCK)).enumerate() {
            let row = (row * cols, self.x.stats(s, row * cols, cols));
            for (at, out) in (0..cols).step_by(RUN_VALUES).zip(out.chunks_mut(RUN_VALUES / U7_BLOCK)) {
                let values = self.x.values(s, row, at, RUN_VALUES.min(cols - at), &mut scratch);
                let (whole, tail) = values.as_chunks::<U7_BLOCK>();
                for (x, out) in whole.iter().zip(&mut *out) {
                    quantize(s, x, out);
                }
                if let Some(out) = out.get_mut(whole.len()) {
                    let mut padded = [0.0; U7_BLOCK];
                    padded[..tail.len()].copy_from_slice(tail);
                    quantize(s, &padded, out);
                }
            }
        }
    }
}

/// Quantizes a block. The range includes zero, so that a padded column has it exactly.
#[inline(always)]
fn quantize<S: Simd>(s: S, x: &[f32; U7_BLOCK], out: &mut U7Block) {
    let zero = s.splat(0.0);
    let (mut most, mut least) = (zero, zero);
    for part in x.chunks_exact(S::LANES) {
        let v = s.load(part);
        most = s.max(most, v);
        least = s.max(least, s.sub(zero, v));
    }
    let (most, least) = (s.reduce_max(most), s.reduce_max(least));
    let (scale, inverse) = scale_for(most + least, TOP);
    let zero_point = (least * inverse).round_ties_even();
    let (factor, shift, top) = (s.splat(inverse), s.splat(zero_point), s.splat(TOP));
    for (x, q) in x.chunks_exact(S::LANES).zip(out.q.chunks_exact_mut(S::LANES)) {
        // `store_i8` rounds; a sum just outside of the range is cut.
        let code = s.fma(s.load(x), factor, shift);
        s.store_i8(s.min(s.max(code, zero), top), q);
    }
    (out.scale, out.offset) = (scale, -zero_point * scale);
}
