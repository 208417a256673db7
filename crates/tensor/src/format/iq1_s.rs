//! IQ1_S: 256 weights in points of eight of -1, 0 and 1, all moved by an eighth: `d / 8 * (2 sc + 1) * TABLE[index]`, a
//! scale to 32.
//! Bytes: d f16, 32 of the points' low bits, then u16 for each 32 weights: three more bits of each point, three of the
//! scale, and whether the eighth is taken away.

use super::bits;
use super::grids::IQ1 as GRID;
use super::i_quant::{self, IQuant, TABLE_1};
use super::shape::{BlockShape, ReadSubScales};

/// Byte of the scale.
pub const D: usize = 0;
/// First byte of the points' low bits.
pub const QS: usize = 2;
/// First byte of the points' upper bits, sub-scales and eighths.
pub const QH: usize = 34;
/// Bytes of a block.
pub const BYTES: usize = QH + 16;
/// The format's shape; codes are the table's values plus 9.
pub const BLOCK_SHAPE: BlockShape =
    BlockShape { group: 32, offset: 9, has_min: false, max_code: 18, unit_exponent: -3 };
/// The moved values, in eighths.
pub const TABLE: [i8; 16] = TABLE_1;

const FORMAT: IQuant = IQuant { shape: BLOCK_SHAPE, table: &TABLE, indices, scales };

pub(super) const SUB_SCALES: Option<ReadSubScales> = Some(|b, s, m| FORMAT.sub_scales(b, s, m));

fn scales(block: &[u8], sub_scales: &mut [i8]) -> u16 {
    for (scale, word) in sub_scales.iter_mut().zip(block[QH..].as_chunks::<2>().0) {
        *scale = i_quant::odd(word[1] >> 4 & 7);
    }
    bits::half_bits(block, D)
}

/// The indices of a point, an eighth lower or higher.
pub(super) fn moved_point(point: u16, down: bool, q: &mut [u8]) {
    for (i, q) in q.iter_mut().enumerate() {
        *q = 2 * ((point >> (2 * i)) as u8 & 3) + u8::from(!down);
    }
}

pub(super) fn indices(block: &[u8], q: &mut [u8]) {
    for (i, q) in q.chunks_exact_mut(8).enumerate() {
        let word = bits::half_bits(block, QH + i / 4 * 2);
        let high = usize::from(word >> (3 * (i % 4)) & 7);
        moved_point(GRID[usize::from(block[QS + i]) | high << 8], word >> 15 == 1, q);
    }
}

pub(super) fn codes(block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
    FORMAT.codes(block, q, scale, min);
}

pub(super) fn encode(values: &[f32], block: &mut [u8]) {
    let (d, stored) = i_quant::fit::<8>(values, BLOCK_SHAPE, (9.0, 7), |d| bits::put_half(block, D, d));
    for (g, (values, stored)) in values.chunks_exact(32).zip(stored).enumerate() {
        let scale = d * f32::from(i_quant::odd(stored));
        let down = values.iter().sum::<f32>() < 0.0;
        let mut word = u16::from(stored) << 12 | u16::from(down) << 15;
        for (i, values) in values.chunks_exact(8).enumerate() {
            let point = i_quant::nearest_moved(&GRID, values, scale, down);
            block[QS + 4 * g + i] = point as u8;
            word |= ((point >> 8) as u16) << (3 * i);
        }
        block[QH + 2 * g..][..2].copy_from_slice(&word.to_le_bytes());
    }
}
