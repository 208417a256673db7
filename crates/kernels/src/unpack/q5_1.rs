//! Q5_1: 5 bits, a scale and a bias for 32 weights.

use super::codes::NibbleAndBit;
use super::scales::HalfBias;
use super::{Format, Raw, bits};

/// Q5_1: 5 bits, a scale and a bias for 32 weights.
pub(crate) struct Q5_1;

impl Format for Q5_1 {
    const WEIGHTS: usize = 32;
    const FILE_BYTES: usize = 24;
    const OFFSET: i32 = 0;
    type Codes = NibbleAndBit;
    type Scales = HalfBias;

    fn split(block: &[u8], raw: &mut Raw) {
        raw.d = bits(block, 0);
        raw.m = bits(block, 2);
        for i in 0..16 {
            let (low, high) = (block[8 + i], |bit: usize| (block[4 + bit / 8] >> (bit % 8)) & 1);
            raw.codes[i] = (low & 15) | (high(i) << 4);
            raw.codes[i + 16] = (low >> 4) | (high(i + 16) << 4);
        }
    }
}
