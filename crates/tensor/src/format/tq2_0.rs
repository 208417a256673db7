//! TQ2_0: 256 weights of -1, 0 or 1 under one scale, `d * (q - 1)`. Bytes: 64 of 2-bit codes as in Q2_K, d f16. The fourth
//! code is 2.

use super::bits;
use super::encode::{extreme, inverse};
use super::shape::{BlockShape, ReadSubScales, SuperScales};

/// First byte of the codes.
pub const QS: usize = 0;
/// Byte of the scale.
pub const D: usize = 64;
/// Bytes of a block.
pub const BYTES: usize = D + 2;
/// The format's shape.
pub const BLOCK_SHAPE: BlockShape =
    BlockShape { group: 32, offset: 1, has_min: false, max_code: 3, unit_exponent: 0 };

pub(super) const SUB_SCALES: Option<ReadSubScales> = Some(|block, sub_scales, sub_minima| {
    sub_scales.fill(1);
    sub_minima.fill(0);
    SuperScales { d: bits::half_bits(block, D), dmin: 0 }
});

pub(super) fn codes(block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
    q.fill(0);
    bits::or_pairs(&block[QS..D], 0, q);
    scale.fill(bits::half(block, D));
    min.fill(0.0);
}

/// The code of each weight, and the scale.
pub(super) fn ternary(values: &[f32], q: &mut [u8]) -> f32 {
    let d = extreme(values).abs();
    let inv = inverse(d);
    for (q, v) in q.iter_mut().zip(values) {
        *q = ((v * inv).round() as i8 + 1) as u8;
    }
    d
}

pub(super) fn encode(values: &[f32], block: &mut [u8]) {
    let mut q = [0; 256];
    let d = ternary(values, &mut q);
    bits::put_pairs(&q, 0, &mut block[QS..D]);
    bits::put_half(block, D, d);
}
