//! Packing rows of activations as f16 for AMX tiles, each row scaled by a power of two.

use cpu::simd::{Job, Simd};

use super::pack_bf16::{AMX_TILE_PAIRS, PairShape};
use crate::partial;

/// Rows in f16.
#[derive(Clone, Copy)]
pub(crate) struct F16Rows<'a> {
    /// The rows in AMX tile order, followed by one tile of any values. Of four columns, the first pair is of the first and third, the
    /// second of the second and fourth.
    pub(crate) pairs: &'a [[i8; 4]],
    /// The scale of each row, a power of two.
    pub(crate) descale: &'a [f32],
}

/// 2^`power`, or the nearest power of two that is normal and has a normal inverse.
pub(crate) fn power_of_two(power: i32) -> f32 {
    f32::from_bits((power.clamp(-126, 126) + 127).cast_unsigned() << 23)
}

/// The exponent of the least power of two above `x`, which is finite and not negative.
pub(crate) fn power_above(x: f32) -> i32 {
    (x.to_bits() >> 23).cast_signed() - 126
}

/// The job that finds the scale of each row: rows are scaled to below 2¹⁵, near the upper end of f16.
pub(super) struct MeasureRows<'a> {
    /// The rows from the first of `descale` on.
    pub(super) x: &'a [f32],
    pub(super) cols: usize,
    pub(super) descale: &'a mut [f32],
}

impl Job for MeasureRows<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let zero = s.splat(0.0);
        for (row, descale) in self.x.chunks_exact(self.cols).zip(self.descale) {
            let mut maxima = [zero; 4];
            for (i, part) in row.chunks(S::LANES).enumerate() {
                let v = partial::load(s, part, 0);
                maxima[i % 4] = s.max(maxima[i % 4], s.max(v, s.sub(zero, v)));
            }
            let max_abs = s.reduce_max(s.max(s.max(maxima[0], maxima[1]), s.max(maxima[2], maxima[3])));
            // A row of zeros, or one that overflowed, is not scaled.
            *descale = if max_abs > 0.0 && max_abs.is_finite() {
                power_of_two(power_above(max_abs) - 15)
            } else {
                1.0
            };
        }
    }
}

/// The job that rounds rows to f16.
pub(super) struct PackF16<'a> {
    /// The rows from the first of `out` on.
    pub(super) x: &'a [f32],
    pub(super) cols: usize,
    /// The scales of the rows of `x`.
    pub(super) descale: &'a [f32],
    pub(super) shape: PairShape,
    /// Whole groups, the last one perhaps of fewer rows.
    pub(super) out: &'a mut [[i8; 4]],
}

impl Job for PackF16<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let PairShape { rows, pairs } = self.shape;
        let groups = self.out.chunks_mut(rows * self.shape.row_len(self.cols));
        let descale = self.descale.chunks(rows);
        for ((x, out), descale) in self.x.chunks(rows * self.cols).zip(groups).zip(descale) {
            let width = x.len() / self.cols;
            for ((r, row), descale) in x.chunks_exact(self.cols).enumerate().zip(descale) {
                let scale = s.splat(1.0 / descale);
                for (part, out) in row.chunks(2 * pairs).zip(out.chunks_exact_mut(width * pairs)) {
                    let mut halves = [0; 2 * AMX_TILE_PAIRS];
                    for at in (0..part.len()).step_by(S::LANES) {
                        s.store_f16(s.mul(partial::load(s, part, at), scale), &mut halves[at..]);
                    }
                    // Swaps the second and third of each four, by arithmetic that is vectorized.
                    let to = out[r * pairs..(r + 1) * pairs].as_flattened_mut().as_chunks_mut::<8>().0;
                    for (four, out) in halves.as_chunks::<4>().0.iter().zip(to) {
                        let four = four.iter().rev().fold(0, |bits, half| bits << 16 | u64::from(*half));
                        let (second, third) = (four >> 16 & 0xffff, four >> 32 & 0xffff);
                        let four = four & 0xffff_0000_0000_ffff | third << 16 | second << 32;
                        *out = four.to_le_bytes().map(u8::cast_signed);
                    }
                }
            }
        }
    }
}
