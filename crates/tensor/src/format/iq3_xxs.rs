//! IQ3_XXS: 256 weights in points of four, `d / 4 * (2 sc + 1) * TABLE[index]`, a scale to 32.
//! Bytes: d f16, 64 of points, then for each 32 weights seven sign bits for each eight and four bits of scale (u32).

use super::bits;
use super::grids::IQ3_XXS as GRID;
use super::i_quant::{self, IQuant};
use super::shape::{BlockShape, ReadSubScales};

/// Byte of the scale.
pub const D: usize = 0;
/// First byte of the points.
pub const QS: usize = 2;
/// First byte of the signs and sub-scales.
pub const SIGNS: usize = 66;
/// Bytes of a block.
pub const BYTES: usize = SIGNS + 32;
/// The format's shape; codes are the table's values plus 62.
pub const BLOCK_SHAPE: BlockShape =
    BlockShape { group: 32, offset: 62, has_min: false, max_code: 124, unit_exponent: -2 };
/// The signed magnitudes.
pub const TABLE: [i8; 16] = [-62, -52, -44, -36, -28, -20, -12, -4, 4, 12, 20, 28, 36, 44, 52, 62];
/// The magnitudes of a coordinate's index.
const MAGNITUDES: [f32; 8] = [4.0, 12.0, 20.0, 28.0, 36.0, 44.0, 52.0, 62.0];

const FORMAT: IQuant = IQuant { shape: BLOCK_SHAPE, table: &TABLE, indices, scales };

pub(super) const SUB_SCALES: Option<ReadSubScales> = Some(|b, s, m| FORMAT.sub_scales(b, s, m));

fn scales(block: &[u8], sub_scales: &mut [i8]) -> u16 {
    for (scale, four) in sub_scales.iter_mut().zip(block[SIGNS..].as_chunks::<4>().0) {
        *scale = i_quant::odd(four[3] >> 4);
    }
    bits::half_bits(block, D)
}

pub(super) fn indices(block: &[u8], q: &mut [u8]) {
    for (i, q) in q.chunks_exact_mut(8).enumerate() {
        let at = SIGNS + i / 4 * 4;
        let signs = u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
        let signs = i_quant::even_signs((signs >> (7 * (i % 4))) as u8 & 127);
        let (first, second) = q.split_at_mut(4);
        i_quant::signed_point(GRID[usize::from(block[QS + 2 * i])], signs, first);
        i_quant::signed_point(GRID[usize::from(block[QS + 2 * i + 1])], signs >> 4, second);
    }
}

pub(super) fn codes(block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
    FORMAT.codes(block, q, scale, min);
}

pub(super) fn encode(values: &[f32], block: &mut [u8]) {
    let (d, stored) = i_quant::fit::<8>(values, BLOCK_SHAPE, (62.0, 15), |d| bits::put_half(block, D, d));
    for (g, stored) in stored.into_iter().enumerate() {
        let scale = d * f32::from(i_quant::odd(stored));
        let mut word = u32::from(stored) << 28;
        for i in 4 * g..4 * g + 4 {
            let mut eight = [0.0; 8];
            eight.copy_from_slice(&values[8 * i..8 * i + 8]);
            make_signs_even(&mut eight);
            for (half, four) in eight.chunks_exact(4).enumerate() {
                let (point, signs) = i_quant::nearest_signed(&GRID, &MAGNITUDES, four, scale, false);
                block[QS + 2 * i + half] = point as u8;
                word |= (u32::from(signs) << (4 * half) & 127) << (7 * (i % 4));
            }
        }
        block[SIGNS + 4 * g..][..4].copy_from_slice(&word.to_le_bytes());
    }
}

/// Replaces the smallest value by a tiny one of the other sign if the number of negative ones is odd.
fn make_signs_even(values: &mut [f32; 8]) {
    if values.iter().filter(|v| **v < 0.0).count() % 2 == 1 {
        let least = (0..8).fold(0, |least, i| if values[i].abs() < values[least].abs() { i } else { least });
        values[least] = if values[least] < 0.0 { 0.0 } else { -f32::MIN_POSITIVE };
    }
}
