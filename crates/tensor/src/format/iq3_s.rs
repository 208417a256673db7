//! IQ3_S: 256 weights in points of four, `d * (2 sc + 1) * TABLE[index]`, a scale to 32.
//! Bytes: d f16, 64 of the points' low bits, 8 of their ninth bits, 32 of signs, 4 of 4-bit scales.

use super::bits;
use super::grids::IQ3_S as GRID;
use super::i_quant::{self, IQuant};
use super::shape::{BlockShape, ReadSubScales};

/// Byte of the scale.
pub const D: usize = 0;
/// First byte of the points' low bits.
pub const QS: usize = 2;
/// First byte of the points' ninth bits.
pub const QH: usize = 66;
/// First byte of the signs.
pub const SIGNS: usize = 74;
/// First byte of the sub-scales.
pub const SCALES: usize = 106;
/// Bytes of a block.
pub const BYTES: usize = SCALES + 4;
/// The format's shape; codes are the table's values plus 15.
pub const BLOCK_SHAPE: BlockShape =
    BlockShape { group: 32, offset: 15, has_min: false, max_code: 30, unit_exponent: 0 };
/// The signed magnitudes.
pub const TABLE: [i8; 16] = [-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15];
/// The magnitudes of a coordinate's index.
const MAGNITUDES: [f32; 8] = [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0];

const FORMAT: IQuant = IQuant { shape: BLOCK_SHAPE, table: &TABLE, indices, scales };

pub(super) const SUB_SCALES: Option<ReadSubScales> = Some(|b, s, m| FORMAT.sub_scales(b, s, m));

fn scales(block: &[u8], sub_scales: &mut [i8]) -> u16 {
    i_quant::odd_nibbles(&block[SCALES..], sub_scales);
    bits::half_bits(block, D)
}

pub(super) fn indices(block: &[u8], q: &mut [u8]) {
    for (i, q) in q.chunks_exact_mut(4).enumerate() {
        let high = usize::from(block[QH + i / 8] >> (i % 8) & 1);
        let signs = block[SIGNS + i / 2] >> (4 * (i % 2));
        i_quant::signed_point(GRID[usize::from(block[QS + i]) | high << 8], signs, q);
    }
}

pub(super) fn codes(block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
    FORMAT.codes(block, q, scale, min);
}

pub(super) fn encode(values: &[f32], block: &mut [u8]) {
    let (d, stored) = i_quant::fit::<8>(values, BLOCK_SHAPE, (15.0, 15), |d| bits::put_half(block, D, d));
    i_quant::put_nibbles(&stored, &mut block[SCALES..]);
    block[QH..SCALES].fill(0);
    for (i, values) in values.chunks_exact(4).enumerate() {
        let scale = d * f32::from(i_quant::odd(stored[i / 8]));
        let (point, signs) = i_quant::nearest_signed(&GRID, &MAGNITUDES, values, scale, false);
        block[QS + i] = point as u8;
        block[QH + i / 8] |= ((point >> 8) as u8) << (i % 8);
        block[SIGNS + i / 2] |= signs << (4 * (i % 2));
    }
}
