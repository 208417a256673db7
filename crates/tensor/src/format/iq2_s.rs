//! IQ2_S: 256 weights in points of eight, `d / 8 * (2 sc + 1) * TABLE[index]`, a scale to 16.
//! Bytes: d f16, 32 of the points' low bits, 32 of signs, 8 of the points' upper two bits, 8 of 4-bit scales.

use super::bits;
use super::grids::IQ2_S as GRID;
use super::i_quant::{self, IQuant, TABLE_2};
use super::iq2_xxs::MAGNITUDES;
use super::shape::{BlockShape, ReadSubScales};

/// Byte of the scale.
pub const D: usize = 0;
/// First byte of the points' low bits.
pub const QS: usize = 2;
/// First byte of the signs.
pub const SIGNS: usize = 34;
/// First byte of the points' upper bits.
pub const QH: usize = 66;
/// First byte of the sub-scales.
pub const SCALES: usize = 74;
/// Bytes of a block.
pub const BYTES: usize = SCALES + 8;
/// The format's shape; codes are the table's values plus 43.
pub const BLOCK_SHAPE: BlockShape =
    BlockShape { group: 16, offset: 43, has_min: false, max_code: 86, unit_exponent: -3 };
/// The signed magnitudes.
pub const TABLE: [i8; 16] = TABLE_2;

const FORMAT: IQuant = IQuant { shape: BLOCK_SHAPE, table: &TABLE, indices, scales };

pub(super) const SUB_SCALES: Option<ReadSubScales> = Some(|b, s, m| FORMAT.sub_scales(b, s, m));

fn scales(block: &[u8], sub_scales: &mut [i8]) -> u16 {
    i_quant::odd_nibbles(&block[SCALES..], sub_scales);
    bits::half_bits(block, D)
}

pub(super) fn indices(block: &[u8], q: &mut [u8]) {
    for (i, q) in q.chunks_exact_mut(8).enumerate() {
        let high = usize::from(block[QH + i / 4] >> (2 * (i % 4)) & 3);
        i_quant::signed_point(GRID[usize::from(block[QS + i]) | high << 8], block[SIGNS + i], q);
    }
}

pub(super) fn codes(block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
    FORMAT.codes(block, q, scale, min);
}

pub(super) fn encode(values: &[f32], block: &mut [u8]) {
    let (d, stored) = i_quant::fit::<16>(values, BLOCK_SHAPE, (43.0, 15), |d| bits::put_half(block, D, d));
    i_quant::put_nibbles(&stored, &mut block[SCALES..]);
    block[QH..SCALES].fill(0);
    for (i, values) in values.chunks_exact(8).enumerate() {
        let scale = d * f32::from(i_quant::odd(stored[i / 2]));
        let (point, signs) = i_quant::nearest_signed(&GRID, &MAGNITUDES, values, scale, false);
        (block[QS + i], block[SIGNS + i]) = (point as u8, signs);
        block[QH + i / 4] |= ((point >> 8) as u8) << (2 * (i % 4));
    }
}
