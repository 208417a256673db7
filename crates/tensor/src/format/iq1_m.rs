//! IQ1_M: 256 weights in points of eight of -1, 0 and 1, each point moved by an eighth: `d / 8 * (2 sc + 1) *
//! TABLE[index]`, a scale to 16.
//! Bytes: 32 of the points' low bits, 16 of four bits a point (three of its upper bits, whether the eighth is taken away),
//! 8 of u16: four scales of three bits, and a quarter of d f16, the lowest four bits first.

use half::f16;

use super::grids::IQ1 as GRID;
use super::i_quant::{self, IQuant, TABLE_1};
use super::iq1_s::moved_point;
use super::shape::{BlockShape, ReadSubScales};

/// First byte of the points' low bits.
pub const QS: usize = 0;
/// First byte of the points' upper bits and eighths.
pub const QH: usize = 32;
/// First byte of the sub-scales and the scale.
pub const SCALES: usize = 48;
/// Bytes of a block.
pub const BYTES: usize = SCALES + 8;
/// The format's shape; codes are the table's values plus 9.
pub const BLOCK_SHAPE: BlockShape =
    BlockShape { group: 16, offset: 9, has_min: false, max_code: 18, unit_exponent: -3 };
/// The moved values, in eighths.
pub const TABLE: [i8; 16] = TABLE_1;

const FORMAT: IQuant = IQuant { shape: BLOCK_SHAPE, table: &TABLE, indices, scales };

pub(super) const SUB_SCALES: Option<ReadSubScales> = Some(|b, s, m| FORMAT.sub_scales(b, s, m));

/// The bits of the block's scale, an f16.
pub(super) fn scale_bits(block: &[u8]) -> u16 {
    (0..4).fold(0, |bits, i| bits | u16::from(block[SCALES + 2 * i + 1] >> 4) << (4 * i))
}

fn scales(block: &[u8], sub_scales: &mut [i8]) -> u16 {
    for (four, word) in sub_scales.chunks_exact_mut(4).zip(block[SCALES..].as_chunks::<2>().0) {
        let word = u16::from_le_bytes(*word);
        for (i, scale) in four.iter_mut().enumerate() {
            *scale = i_quant::odd((word >> (3 * i)) as u8 & 7);
        }
    }
    scale_bits(block)
}

pub(super) fn indices(block: &[u8], q: &mut [u8]) {
    for (i, q) in q.chunks_exact_mut(8).enumerate() {
        let nibble = block[QH + i / 2] >> (4 * (i % 2));
        let high = usize::from(nibble & 7);
        moved_point(GRID[usize::from(block[QS + i]) | high << 8], nibble & 8 != 0, q);
    }
}

pub(super) fn codes(block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
    FORMAT.codes(block, q, scale, min);
}

pub(super) fn encode(values: &[f32], block: &mut [u8]) {
    let mut stored_d = f16::ZERO;
    let (d, stored) = i_quant::fit::<16>(values, BLOCK_SHAPE, (9.0, 7), |d| {
        stored_d = f16::from_f32(d.min(f16::MAX.to_f32()));
        stored_d.to_f32()
    });
    for (i, four) in stored.as_chunks::<4>().0.iter().enumerate() {
        let scales = four.iter().rev().fold(0, |word, scale| word << 3 | u16::from(*scale));
        let word = scales | (stored_d.to_bits() >> (4 * i) & 15) << 12;
        block[SCALES + 2 * i..][..2].copy_from_slice(&word.to_le_bytes());
    }
    block[QH..SCALES].fill(0);
    for (i, values) in values.chunks_exact(8).enumerate() {
        let scale = d * f32::from(i_quant::odd(stored[i / 2]));
        let down = values.iter().sum::<f32>() < 0.0;
        let point = i_quant::nearest_moved(&GRID, values, scale, down);
        block[QS + i] = point as u8;
        block[QH + i / 2] |= ((point >> 8) as u8 | u8::from(down) << 3) << (4 * (i % 2));
    }
}
