//! IQ4_XS: 256 weights in groups of 32, `d * (sc - 32) * TABLE[index]` with IQ4_NL's table.
//! Bytes: d f16, upper two bits of the sub-scales (u16), their low four bits (4 bytes), 128 of nibbles (each 16 bytes:
//! 16 low, 16 high).

use super::bits;
use super::encode::{inverse, nearest, signed};
use super::iq4_nl::{TABLE, look_up};
use super::shape::{BlockShape, ReadSubScales, SuperScales};

/// Byte of the scale.
pub const D: usize = 0;
/// First byte of the sub-scales' upper bits.
pub const SCALES_H: usize = 2;
/// First byte of the sub-scales' low bits.
pub const SCALES_L: usize = 4;
/// First byte of the indices.
pub const QS: usize = 8;
/// Bytes of a block.
pub const BYTES: usize = QS + 128;
/// The format's shape; codes are the table's values plus 128.
pub const BLOCK_SHAPE: BlockShape =
    BlockShape { group: 32, offset: 128, has_min: false, max_code: 241, unit_exponent: 0 };

/// Reads the eight sub-scales, -32..=31.
pub fn unpack_scales(high: u16, low: &[u8; 4]) -> [i8; 8] {
    std::array::from_fn(|g| {
        let low = low[g / 2] >> (4 * (g % 2)) & 15;
        let high = (high >> (2 * g) & 3) as u8;
        (low | high << 4) as i8 - 32
    })
}

/// Inverse of [`unpack_scales`].
pub fn pack_scales(scales: &[i8; 8]) -> (u16, [u8; 4]) {
    let (mut high, mut low) = (0, [0; 4]);
    for (g, &s) in scales.iter().enumerate() {
        let s = (s + 32) as u8;
        low[g / 2] |= (s & 15) << (4 * (g % 2));
        high |= u16::from(s >> 4) << (2 * g);
    }
    (high, low)
}

fn scales(block: &[u8]) -> [i8; 8] {
    let mut low = [0; 4];
    low.copy_from_slice(&block[SCALES_L..QS]);
    unpack_scales(bits::half_bits(block, SCALES_H), &low)
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
    bits::nibbles(&block[QS..], 16, q);
    look_up(q);
}

pub(super) fn encode(values: &[f32], block: &mut [u8]) {
    let (d, sc) = signed::<8>(values, 127.0, 32, |d| bits::put_half(block, D, d));
    let mut q = [0; 256];
    for (i, (q, v)) in q.iter_mut().zip(values).enumerate() {
        *q = nearest(&TABLE, v * inverse(d * f32::from(sc[i / 32])));
    }
    let (high, low) = pack_scales(&sc);
    block[SCALES_H..SCALES_L].copy_from_slice(&high.to_le_bytes());
    block[SCALES_L..QS].copy_from_slice(&low);
    bits::put_nibbles(&q, 16, &mut block[QS..]);
}
