//! NVFP4: 64 weights of 4-bit floats (E2M1), a scale without a sign (E4M3) to 16. Bytes: four scales, then 8 bytes of
//! nibbles for each, the low ones first. The table is MXFP4's, whose values are doubled; scales are halved for it.

use super::bits;
use super::encode::{extreme, inverse, nearest};
use super::mxfp4::TABLE;
use super::shape::{BlockShape, ReadSubScales};

/// First byte of the scales.
pub const SCALES: usize = 0;
/// First byte of the indices.
pub const QS: usize = 4;
/// Bytes of a block.
pub const BYTES: usize = QS + 32;
/// The format's shape; codes are the table's values plus 12.
pub const BLOCK_SHAPE: BlockShape =
    BlockShape { group: 16, offset: 12, has_min: false, max_code: 24, unit_exponent: 0 };
/// The byte of the largest finite scale.
const LARGEST: u8 = 0x7e;

/// No f16 is the scale of this format.
pub(super) const SUB_SCALES: Option<ReadSubScales> = None;

/// Half of the scale that a byte means. The topmost bit counts for nothing; what E4M3 has for NaN is zero.
pub fn half_scale(byte: u8) -> f32 {
    if byte == 0x7f {
        return 0.0;
    }
    let (exponent, mantissa) = (i32::from(byte >> 3 & 15), f32::from(byte & 7));
    let steps = if exponent == 0 { mantissa } else { mantissa + 8.0 };
    steps * f32::from_bits(((exponent.max(1) - 11 + 127) as u32) << 23)
}

pub(super) fn indices(block: &[u8], q: &mut [u8]) {
    bits::nibbles(&block[QS..], 8, q);
}

pub(super) fn codes(block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
    indices(block, q);
    for q in q {
        *q = (TABLE[usize::from(*q)] + 12) as u8;
    }
    for (scale, byte) in scale.iter_mut().zip(&block[SCALES..QS]) {
        *scale = half_scale(*byte);
    }
    min.fill(0.0);
}

pub(super) fn encode(values: &[f32], block: &mut [u8]) {
    let mut q = [0; 64];
    for (g, (q, values)) in q.chunks_exact_mut(16).zip(values.chunks_exact(16)).enumerate() {
        let wanted = extreme(values).abs() / 12.0;
        // Scales grow with their bytes.
        let distance = |byte: u8| (half_scale(byte) - wanted).abs();
        let byte =
            (0..=LARGEST).fold(0, |best, byte| if distance(byte) < distance(best) { byte } else { best });
        block[SCALES + g] = byte;
        for (q, v) in q.iter_mut().zip(values) {
            *q = nearest(&TABLE, v * inverse(half_scale(byte)));
        }
    }
    bits::put_nibbles(&q, 8, &mut block[QS..]);
}
