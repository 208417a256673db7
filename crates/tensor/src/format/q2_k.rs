//! Q2_K: 256 weights in groups of 16, `d * sc * q - dmin * m`.
//! Bytes: 16 of (sc low nibble, m high nibble), 64 of 2-bit codes, d f16, dmin f16.

use super::bits;
use super::encode::Affine;
use super::shape::{BlockShape, ReadSubScales, SuperScales};

/// First byte of the sub-scales and sub-minima.
pub const SCALES: usize = 0;
/// First byte of the codes.
pub const QS: usize = 16;
/// Byte of the scale.
pub const D: usize = 80;
/// Byte of the minimum.
pub const DMIN: usize = 82;
/// Bytes of a block.
pub const BYTES: usize = DMIN + 2;
/// The format's shape.
pub const BLOCK_SHAPE: BlockShape =
    BlockShape { group: 16, offset: 0, has_min: true, max_code: 3, unit_exponent: 0 };

pub(super) const SUB_SCALES: Option<ReadSubScales> = Some(|block, sub_scales, sub_minima| {
    for (g, &byte) in block[SCALES..QS].iter().enumerate() {
        (sub_scales[g], sub_minima[g]) = ((byte & 15) as i8, byte >> 4);
    }
    SuperScales { d: bits::half_bits(block, D), dmin: bits::half_bits(block, DMIN) }
});

pub(super) fn codes(block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
    let (d, dmin) = (bits::half(block, D), bits::half(block, DMIN));
    for (g, &byte) in block[SCALES..QS].iter().enumerate() {
        scale[g] = d * f32::from(byte & 15);
        min[g] = dmin * f32::from(byte >> 4);
    }
    q.fill(0);
    bits::or_pairs(&block[QS..D], 0, q);
}

pub(super) fn encode(values: &[f32], block: &mut [u8]) {
    let fit = Affine::<16>::fit(values, 3, 15, |d, dmin| {
        (bits::put_half(block, D, d), bits::put_half(block, DMIN, dmin))
    });
    let mut q = [0; 256];
    fit.codes(values, 3, &mut q);
    for g in 0..16 {
        block[SCALES + g] = fit.sub_scales[g] | fit.sub_mins[g] << 4;
    }
    bits::put_pairs(&q, 0, &mut block[QS..D]);
}
