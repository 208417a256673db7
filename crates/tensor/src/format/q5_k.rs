//! Q5_K: 256 weights in groups of 32, `d * sc * q - dmin * m`.
//! Bytes: d, dmin and sub-scales as in Q4_K, 32 of fifth bits, 128 of nibbles as in Q4_K.

use super::shape::{BlockShape, ReadSubScales};
use super::{bits, q4_k};

/// Byte of the scale.
pub const D: usize = q4_k::D;
/// Byte of the minimum.
pub const DMIN: usize = q4_k::DMIN;
/// First byte of the sub-scales and sub-minima.
pub const SCALES: usize = q4_k::SCALES;
/// First byte of the fifth bits.
pub const QH: usize = 16;
/// First byte of the low four bits.
pub const QS: usize = 48;
/// Bytes of a block.
pub const BYTES: usize = QS + 128;
/// The format's shape.
pub const BLOCK_SHAPE: BlockShape =
    BlockShape { group: 32, offset: 0, has_min: true, max_code: 31, unit_exponent: 0 };

pub(super) const SUB_SCALES: Option<ReadSubScales> = q4_k::SUB_SCALES;

pub(super) fn codes(block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
    q4_k::final_scales(block, scale, min);
    bits::nibbles(&block[QS..], 32, q);
    bits::or_planes(&block[QH..QS], 4, q);
}

pub(super) fn encode(values: &[f32], block: &mut [u8]) {
    let mut q = [0; 256];
    q4_k::encode_scales(values, 31, block, &mut q);
    bits::put_nibbles(&q, 32, &mut block[QS..]);
    bits::put_planes(&q, 4, &mut block[QH..QS]);
}
