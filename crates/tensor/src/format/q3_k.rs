//! Q3_K: 256 weights in groups of 16, `d * (sc - 32) * (q - 4)`.
//! Bytes: 32 of third bits, 64 of 2-bit codes, 12 of 6-bit sub-scales, d f16.

use super::bits;
use super::encode::{inverse, signed};
use super::shape::{BlockShape, ReadSubScales, SuperScales};

/// First byte of the third bits.
pub const HMASK: usize = 0;
/// First byte of the low two bits.
pub const QS: usize = 32;
/// First byte of the sub-scales.
pub const SCALES: usize = 96;
/// Byte of the scale.
pub const D: usize = 108;
/// Bytes of a block.
pub const BYTES: usize = D + 2;
/// The format's shape.
pub const BLOCK_SHAPE: BlockShape =
    BlockShape { group: 16, offset: 4, has_min: false, max_code: 7, unit_exponent: 0 };

/// Reads the 16 sub-scales, -32..=31, of their 12 bytes: eight hold the low four bits (of g in the low, of g + 8 in the
/// high nibble), four the upper two bits (of g, g + 4, g + 8, g + 12).
pub fn unpack_scales(packed: &[u8; 12]) -> [i8; 16] {
    std::array::from_fn(|g| {
        let low = packed[g % 8] >> (4 * (g / 8)) & 15;
        let high = packed[8 + g % 4] >> (2 * (g / 4)) & 3;
        (low | high << 4) as i8 - 32
    })
}

/// Inverse of [`unpack_scales`].
pub fn pack_scales(scales: &[i8; 16]) -> [u8; 12] {
    let mut packed = [0; 12];
    for (g, &s) in scales.iter().enumerate() {
        let s = (s + 32) as u8;
        packed[g % 8] |= (s & 15) << (4 * (g / 8));
        packed[8 + g % 4] |= (s >> 4) << (2 * (g / 4));
    }
    packed
}

fn scales(block: &[u8]) -> [i8; 16] {
    let mut packed = [0; 12];
    packed.copy_from_slice(&block[SCALES..D]);
    unpack_scales(&packed)
}

pub(super) const SUB_SCALES: Option<ReadSubScales> = Some(|block, sub_scales, sub_minima| {
    sub_scales.copy_from_slice(&scales(block));
    sub_minima.fill(0);
    SuperScales { d: bits::half_bits(block, D), dmin: 0 }
});

pub(super) fn codes(block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
    let d = bits::half(block, D);
    for (scale, sc) in scale.iter_mut().zip(scales(block)) {
        *scale = d * f32::from(sc);
    }
    min.fill(0.0);
    q.fill(0);
    bits::or_pairs(&block[QS..SCALES], 0, q);
    bits::or_planes(&block[HMASK..QS], 2, q);
}

pub(super) fn encode(values: &[f32], block: &mut [u8]) {
    let (d, sc) = signed::<16>(values, 4.0, 32, |d| bits::put_half(block, D, d));
    let mut q = [0; 256];
    for (i, (q, v)) in q.iter_mut().zip(values).enumerate() {
        *q = super::encode::code(v * inverse(d * f32::from(sc[i / 16])) + 4.0, 7);
    }
    block[SCALES..D].copy_from_slice(&pack_scales(&sc));
    bits::put_pairs(&q, 0, &mut block[QS..SCALES]);
    bits::put_planes(&q, 2, &mut block[HMASK..QS]);
}
