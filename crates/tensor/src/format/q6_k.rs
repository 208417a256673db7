//! Q6_K: 256 weights in groups of 16, `d * sc * (q - 32)`.
//! Bytes: 128 of nibbles (each 64 bytes: 64 low, 64 high), 64 of upper bit pairs, 16 sub-scales i8, d f16.

use super::bits;
use super::encode::{inverse, signed};
use super::shape::{BlockShape, ReadSubScales, SuperScales};

/// First byte of the low four bits.
pub const QL: usize = 0;
/// First byte of the upper two bits.
pub const QH: usize = 128;
/// First byte of the sub-scales, as i8.
pub const SCALES: usize = 192;
/// Byte of the scale.
pub const D: usize = 208;
/// Bytes of a block.
pub const BYTES: usize = D + 2;
/// The format's shape.
pub const BLOCK_SHAPE: BlockShape =
    BlockShape { group: 16, offset: 32, has_min: false, max_code: 63, unit_exponent: 0 };

pub(super) const SUB_SCALES: Option<ReadSubScales> = Some(|block, sub_scales, sub_minima| {
    for (scale, &byte) in sub_scales.iter_mut().zip(&block[SCALES..D]) {
        *scale = byte as i8;
    }
    sub_minima.fill(0);
    SuperScales { d: bits::half_bits(block, D), dmin: 0 }
});

pub(super) fn codes(block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
    let d = bits::half(block, D);
    for (scale, &byte) in scale.iter_mut().zip(&block[SCALES..D]) {
        *scale = d * f32::from(byte as i8);
    }
    min.fill(0.0);
    bits::nibbles(&block[QL..QH], 64, q);
    bits::or_pairs(&block[QH..SCALES], 4, q);
}

pub(super) fn encode(values: &[f32], block: &mut [u8]) {
    let (d, sc) = signed::<16>(values, 32.0, 128, |d| bits::put_half(block, D, d));
    let mut q = [0; 256];
    for (i, (q, v)) in q.iter_mut().zip(values).enumerate() {
        *q = super::encode::code(v * inverse(d * f32::from(sc[i / 16])) + 32.0, 63);
    }
    for (byte, sc) in block[SCALES..D].iter_mut().zip(sc) {
        *byte = sc as u8;
    }
    bits::put_nibbles(&q, 64, &mut block[QL..QH]);
    bits::put_pairs(&q, 4, &mut block[QH..SCALES]);
}
