//! IQ2_XXS: 256 weights in points of eight, `d / 8 * (2 sc + 1) * TABLE[index]`, a scale to 32.
//! Bytes: d f16, then 8 for each 32 weights: four points of the grid, then seven sign bits for each and four bits of
//! scale (u32).

use super::bits;
use super::grids::IQ2_XXS as GRID;
use super::i_quant::{self, IQuant, TABLE_2};
use super::shape::{BlockShape, ReadSubScales};

/// Byte of the scale.
pub const D: usize = 0;
/// First byte of the points, signs and sub-scales.
pub const QS: usize = 2;
/// Bytes of a block.
pub const BYTES: usize = QS + 64;
/// The format's shape; codes are the table's values plus 43.
pub const BLOCK_SHAPE: BlockShape =
    BlockShape { group: 32, offset: 43, has_min: false, max_code: 86, unit_exponent: -3 };
/// The signed magnitudes.
pub const TABLE: [i8; 16] = TABLE_2;
/// The magnitudes of a coordinate's index.
pub(super) const MAGNITUDES: [f32; 3] = [8.0, 25.0, 43.0];

const FORMAT: IQuant = IQuant { shape: BLOCK_SHAPE, table: &TABLE, indices, scales };

pub(super) const SUB_SCALES: Option<ReadSubScales> = Some(|b, s, m| FORMAT.sub_scales(b, s, m));

fn scales(block: &[u8], sub_scales: &mut [i8]) -> u16 {
    for (scale, eight) in sub_scales.iter_mut().zip(block[QS..].chunks_exact(8)) {
        *scale = i_quant::odd(eight[7] >> 4);
    }
    bits::half_bits(block, D)
}

pub(super) fn indices(block: &[u8], q: &mut [u8]) {
    for (q, eight) in q.chunks_exact_mut(32).zip(block[QS..].chunks_exact(8)) {
        let signs = u32::from_le_bytes([eight[4], eight[5], eight[6], eight[7]]);
        for (i, q) in q.chunks_exact_mut(8).enumerate() {
            let signs = i_quant::even_signs((signs >> (7 * i)) as u8 & 127);
            i_quant::signed_point(GRID[usize::from(eight[i])], signs, q);
        }
    }
}

pub(super) fn codes(block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
    FORMAT.codes(block, q, scale, min);
}

pub(super) fn encode(values: &[f32], block: &mut [u8]) {
    let (d, stored) = i_quant::fit::<8>(values, BLOCK_SHAPE, (43.0, 15), |d| bits::put_half(block, D, d));
    let groups = values.chunks_exact(32).zip(block[QS..].chunks_exact_mut(8));
    for ((values, eight), stored) in groups.zip(stored) {
        let scale = d * f32::from(i_quant::odd(stored));
        let mut word = u32::from(stored) << 28;
        for (i, values) in values.chunks_exact(8).enumerate() {
            let (point, signs) = i_quant::nearest_signed(&GRID, &MAGNITUDES, values, scale, true);
            eight[i] = point as u8;
            word |= u32::from(signs & 127) << (7 * i);
        }
        eight[4..].copy_from_slice(&word.to_le_bytes());
    }
}
