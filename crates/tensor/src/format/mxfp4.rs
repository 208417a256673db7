//! MXFP4: 32 weights of 4-bit floats (E2M1) under a power of two (E8M0). Bytes: exponent, then 16 bytes of nibbles as in
//! Q4_0. The table holds the floats doubled, so that they are integers; the scale is halved for it.

use super::bits;
use super::encode::{extreme, nearest};
use super::shape::{BlockShape, ReadSubScales};

/// Byte of the exponent.
pub const E: usize = 0;
/// First byte of the indices.
pub const QS: usize = 1;
/// Bytes of a block.
pub const BYTES: usize = QS + 16;
/// The format's shape; codes are the table's values plus 12.
pub const BLOCK_SHAPE: BlockShape =
    BlockShape { group: 32, offset: 12, has_min: false, max_code: 24, unit_exponent: 0 };
/// Twice the E2M1 float of each index.
pub const TABLE: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];
/// Beyond this exponent the largest weight, `12 * 2^(e - 128)`, is no f32.
pub(super) const MAX_FINITE_E: u8 = 252;

/// No f16 is the scale of this format.
pub(super) const SUB_SCALES: Option<ReadSubScales> = None;

/// Half of `2^(e - 127)`; the two smallest are subnormal.
pub fn half_power(e: u8) -> f32 {
    f32::from_bits(match e {
        0 | 1 => 0x0020_0000 << e,
        _ => u32::from(e - 1) << 23,
    })
}

pub(super) fn codes(block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
    bits::nibbles(&block[QS..], 16, q);
    for q in q {
        *q = (TABLE[usize::from(*q)] + 12) as u8;
    }
    (scale[0], min[0]) = (half_power(block[E]), 0.0);
}

pub(super) fn encode(values: &[f32], block: &mut [u8]) {
    // The largest weight gets the exponent 2 of the largest E2M1 floats (4 and 6). The bits of a float hold
    // floor(log2) + 127 where it is normal.
    let exponent = (extreme(values).to_bits() >> 23 & 255) as u8;
    let e = exponent.saturating_sub(2);
    let d = half_power(e);
    let mut q = [0; 32];
    for (q, v) in q.iter_mut().zip(values) {
        *q = nearest(&TABLE, v / d);
    }
    block[E] = e;
    bits::put_nibbles(&q, 16, &mut block[QS..]);
}
