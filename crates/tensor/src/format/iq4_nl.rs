//! IQ4_NL: 32 weights, `d * TABLE[index]`. Bytes: d f16, then 16 bytes of nibbles as in Q4_0.

use super::bits;
use super::encode::{extreme, inverse, nearest};
use super::shape::{BlockShape, ReadSubScales, SuperScales};

/// Byte of the scale.
pub const D: usize = 0;
/// First byte of the indices.
pub const QS: usize = 2;
/// Bytes of a block.
pub const BYTES: usize = QS + 16;
/// The format's shape; codes are the table's values plus 128.
pub const BLOCK_SHAPE: BlockShape =
    BlockShape { group: 32, offset: 128, has_min: false, max_code: 241, unit_exponent: 0 };
/// What an index stands for: steps that widen away from zero, as weights thin out.
pub const TABLE: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

pub(super) const SUB_SCALES: Option<ReadSubScales> = Some(|block, sub_scales, sub_minima| {
    (sub_scales[0], sub_minima[0]) = (1, 0);
    SuperScales { d: bits::half_bits(block, D), dmin: 0 }
});

/// Replaces indices by the table's values plus 128.
pub(super) fn look_up(q: &mut [u8]) {
    for q in q {
        *q = TABLE[usize::from(*q & 15)] as u8 ^ 0x80;
    }
}

pub(super) fn codes(block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
    bits::nibbles(&block[QS..], 16, q);
    look_up(q);
    (scale[0], min[0]) = (bits::half(block, D), 0.0);
}

pub(super) fn encode(values: &[f32], block: &mut [u8]) {
    let d = bits::put_half(block, D, extreme(values) / -127.0);
    let mut q = [0; 32];
    for (q, v) in q.iter_mut().zip(values) {
        *q = nearest(&TABLE, v * inverse(d));
    }
    bits::put_nibbles(&q, 16, &mut block[QS..]);
}
