//! Q8_0: 32 weights, `d * q` with q a signed byte. Bytes: d f16, then 32 bytes.

use super::bits;
use super::encode::{extreme, inverse};
use super::shape::{BlockShape, ReadSubScales, SuperScales};

/// Byte of the scale.
pub const D: usize = 0;
/// First byte of the weights, as i8.
pub const QS: usize = 2;
/// Bytes of a block.
pub const BYTES: usize = QS + 32;
/// The format's shape; codes are the signed bytes plus 128.
pub const BLOCK_SHAPE: BlockShape =
    BlockShape { group: 32, offset: 128, has_min: false, max_code: 255, unit_exponent: 0 };

pub(super) const SUB_SCALES: Option<ReadSubScales> = Some(|block, sub_scales, sub_minima| {
    (sub_scales[0], sub_minima[0]) = (1, 0);
    SuperScales { d: bits::half_bits(block, D), dmin: 0 }
});

pub(super) fn codes(block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
    for (q, b) in q.iter_mut().zip(&block[QS..]) {
        *q = b ^ 0x80;
    }
    (scale[0], min[0]) = (bits::half(block, D), 0.0);
}

pub(super) fn encode(values: &[f32], block: &mut [u8]) {
    let d = extreme(values).abs() / 127.0;
    let inv = inverse(d);
    bits::put_half(block, D, d);
    for (b, v) in block[QS..].iter_mut().zip(values) {
        *b = (v * inv).round() as i8 as u8;
    }
}
