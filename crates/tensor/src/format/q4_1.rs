//! Q4_1: 32 weights, `d * q + m`. Bytes: d f16, m f16, then 16 bytes of nibbles as in Q4_0.

use super::bits;
use super::encode::{inverse, range};
use super::shape::{BlockShape, ReadSubScales, SuperScales};

/// Byte of the scale.
pub const D: usize = 0;
/// Byte of `m`, which is added: the minimum of the common formula is its negative.
pub const M: usize = 2;
/// First byte of the codes.
pub const QS: usize = 4;
/// Bytes of a block.
pub const BYTES: usize = QS + 16;
/// The format's shape.
pub const BLOCK_SHAPE: BlockShape =
    BlockShape { group: 32, offset: 0, has_min: true, max_code: 15, unit_exponent: 0 };

pub(super) const SUB_SCALES: Option<ReadSubScales> = Some(|block, sub_scales, sub_minima| {
    (sub_scales[0], sub_minima[0]) = (1, 1);
    SuperScales { d: bits::half_bits(block, D), dmin: bits::half_bits(block, M) ^ 0x8000 }
});

pub(super) fn codes(block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
    bits::nibbles(&block[QS..], 16, q);
    (scale[0], min[0]) = (bits::half(block, D), -bits::half(block, M));
}

pub(super) fn encode(values: &[f32], block: &mut [u8]) {
    let (lo, hi) = range(values);
    let d = (hi - lo) / 15.0;
    let inv = inverse(d);
    let mut q = [0; 32];
    for (q, v) in q.iter_mut().zip(values) {
        *q = (((v - lo) * inv + 0.5) as u8).min(15);
    }
    bits::put_half(block, D, d);
    bits::put_half(block, M, lo);
    bits::put_nibbles(&q, 16, &mut block[QS..]);
}
