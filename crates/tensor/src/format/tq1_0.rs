//! TQ1_0: 256 weights of -1, 0 or 1 under one scale, `d * (q - 1)`, five in a byte. Bytes: 48 of five codes, 4 of four, d
//! f16. A byte is the fraction `0.q0 q1 q2 q3 q4` in base 3, in 256ths, rounded up: multiplied by 3, its digits come out
//! above the byte, one after the other.

use super::bits;
use super::shape::{BlockShape, ReadSubScales, SuperScales};
use super::tq2_0::ternary;

/// Byte of the scale.
pub const D: usize = 52;
/// Bytes of a block.
pub const BYTES: usize = D + 2;
/// The format's shape.
pub const BLOCK_SHAPE: BlockShape =
    BlockShape { group: 32, offset: 1, has_min: false, max_code: 2, unit_exponent: 0 };

/// Runs of bytes: where a run begins, its length, and the codes in each byte. Code `n` of byte `i` of a run is weight
/// `length * n + i` of the run.
const RUNS: [(usize, usize, usize); 3] = [(0, 32, 5), (32, 16, 5), (48, 4, 4)];

pub(super) const SUB_SCALES: Option<ReadSubScales> = Some(|block, sub_scales, sub_minima| {
    sub_scales.fill(1);
    sub_minima.fill(0);
    SuperScales { d: bits::half_bits(block, D), dmin: 0 }
});

pub(super) fn codes(block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
    let mut rest = q;
    for (start, length, digits) in RUNS {
        let (run, after) = rest.split_at_mut(length * digits);
        rest = after;
        for (i, &byte) in block[start..start + length].iter().enumerate() {
            let mut fraction = byte;
            for digit in 0..digits {
                let tripled = u16::from(fraction) * 3;
                run[length * digit + i] = (tripled >> 8) as u8;
                fraction = tripled as u8;
            }
        }
    }
    scale.fill(bits::half(block, D));
    min.fill(0.0);
}

pub(super) fn encode(values: &[f32], block: &mut [u8]) {
    let mut q = [0; 256];
    let d = ternary(values, &mut q);
    let mut rest = &q[..];
    for (start, length, digits) in RUNS {
        let (run, after) = rest.split_at(length * digits);
        rest = after;
        for (i, byte) in block[start..start + length].iter_mut().enumerate() {
            // Five digits, the last ones zero where there are fewer.
            let number = (0..5).fold(0u16, |sum, digit| {
                3 * sum + if digit < digits { u16::from(run[length * digit + i]) } else { 0 }
            });
            *byte = (number * 256).div_ceil(243) as u8;
        }
    }
    bits::put_half(block, D, d);
}
