//! Q4_K: 256 weights in groups of 32, `d * sc * q - dmin * m`.
//! Bytes: d f16, dmin f16, 12 of 6-bit sub-scales and sub-minima, 128 of nibbles (each 32 bytes: 32 low, 32 high).

use super::bits;
use super::encode::Affine;
use super::shape::{BlockShape, ReadSubScales, SuperScales};

/// Byte of the scale.
pub const D: usize = 0;
/// Byte of the minimum.
pub const DMIN: usize = 2;
/// First byte of the sub-scales and sub-minima.
pub const SCALES: usize = 4;
/// First byte of the codes.
pub const QS: usize = 16;
/// Bytes of a block.
pub const BYTES: usize = QS + 128;
/// The format's shape.
pub const BLOCK_SHAPE: BlockShape =
    BlockShape { group: 32, offset: 0, has_min: true, max_code: 15, unit_exponent: 0 };

/// Reads eight sub-scales and eight sub-minima, 0..=63, of their 12 bytes (Q5_K has the same). The first four of each
/// are six bits of bytes 0..4 and 4..8; the last four have their low bits in the nibbles of bytes 8..12 and their upper
/// two in what is left of the first eight bytes.
pub fn unpack_scales(packed: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let read = |start: usize, shift: u32| {
        std::array::from_fn(|g| match g {
            0..4 => packed[start + g] & 63,
            _ => (packed[4 + g] >> shift & 15) | (packed[start + g - 4] >> 6) << 4,
        })
    };
    (read(0, 0), read(4, 4))
}

/// Inverse of [`unpack_scales`].
pub fn pack_scales(sc: &[u8; 8], m: &[u8; 8]) -> [u8; 12] {
    std::array::from_fn(|i| match i {
        0..4 => (sc[i] & 63) | (sc[i + 4] >> 4) << 6,
        4..8 => (m[i - 4] & 63) | (m[i] >> 4) << 6,
        _ => (sc[i - 4] & 15) | (m[i - 4] & 15) << 4,
    })
}

pub(super) fn scales(block: &[u8]) -> ([u8; 8], [u8; 8]) {
    let mut packed = [0; 12];
    packed.copy_from_slice(&block[SCALES..SCALES + 12]);
    unpack_scales(&packed)
}

pub(super) const SUB_SCALES: Option<ReadSubScales> = Some(|block, sub_scales, sub_minima| {
    let (scales, mins) = scales(block);
    sub_scales.copy_from_slice(&scales.map(|s| s as i8));
    sub_minima.copy_from_slice(&mins);
    SuperScales { d: bits::half_bits(block, D), dmin: bits::half_bits(block, DMIN) }
});

/// The final scales and minima; Q5_K has them at the same place.
pub(super) fn final_scales(block: &[u8], scale: &mut [f32], min: &mut [f32]) {
    let (d, dmin) = (bits::half(block, D), bits::half(block, DMIN));
    let (sc, m) = scales(block);
    for g in 0..8 {
        scale[g] = d * f32::from(sc[g]);
        min[g] = dmin * f32::from(m[g]);
    }
}

pub(super) fn codes(block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
    final_scales(block, scale, min);
    bits::nibbles(&block[QS..], 32, q);
}

/// Fits the scales and writes them; the codes are up to the format.
pub(super) fn encode_scales(values: &[f32], levels: u8, block: &mut [u8], q: &mut [u8]) {
    let fit = Affine::<8>::fit(values, levels, 63, |d, dmin| {
        (bits::put_half(block, D, d), bits::put_half(block, DMIN, dmin))
    });
    block[SCALES..SCALES + 12].copy_from_slice(&pack_scales(&fit.sub_scales, &fit.sub_mins));
    fit.codes(values, levels, q);
}

pub(super) fn encode(values: &[f32], block: &mut [u8]) {
    let mut q = [0; 256];
    encode_scales(values, 15, block, &mut q);
    bits::put_nibbles(&q, 32, &mut block[QS..]);
}
