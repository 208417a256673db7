//! Q5_0: 32 weights, `d * (q - 16)`. Bytes: d f16, 32 fifth bits, then 16 bytes of nibbles as in Q4_0.

use super::bits;
use super::encode::{extreme, inverse};
use super::shape::{BlockShape, ReadSubScales, SuperScales};

/// Byte of the scale.
pub const D: usize = 0;
/// First byte of the fifth bits.
pub const QH: usize = 2;
/// First byte of the low four bits.
pub const QS: usize = 6;
/// Bytes of a block.
pub const BYTES: usize = QS + 16;
/// The format's shape.
pub const BLOCK_SHAPE: BlockShape =
    BlockShape { group: 32, offset: 16, has_min: false, max_code: 31, unit_exponent: 0 };

pub(super) const SUB_SCALES: Option<ReadSubScales> = Some(|block, sub_scales, sub_minima| {
    (sub_scales[0], sub_minima[0]) = (1, 0);
    SuperScales { d: bits::half_bits(block, D), dmin: 0 }
});

pub(super) fn codes(block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
    bits::nibbles(&block[QS..], 16, q);
    bits::or_fifth_bits(&block[QH..QS], q);
    (scale[0], min[0]) = (bits::half(block, D), 0.0);
}

pub(super) fn encode(values: &[f32], block: &mut [u8]) {
    let d = extreme(values) / -16.0;
    let inv = inverse(d);
    let mut q = [0; 32];
    for (q, v) in q.iter_mut().zip(values) {
        *q = ((v * inv + 16.5) as u8).min(31);
    }
    bits::put_half(block, D, d);
    bits::put_fifth_bits(&q, &mut block[QH..QS]);
    bits::put_nibbles(&q, 16, &mut block[QS..]);
}
