//! Q5_K: 5 bits, a 6-bit scale and a 6-bit bias for 32 weights, in super-blocks of 256.

use super::codes::NibbleAndBit;
use super::q4_k::split_scales;
use super::scales::SuperBias;
use super::{Format, Raw, bits};

/// Q5_K: 5 bits, a 6-bit scale and a 6-bit bias for 32 weights, in super-blocks of 256.
pub(crate) struct Q5K;

impl Format for Q5K {
    const WEIGHTS: usize = 256;
    const FILE_BYTES: usize = 176;
    const OFFSET: i32 = 0;
    type Codes = NibbleAndBit;
    type Scales = SuperBias;

    fn split(block: &[u8], raw: &mut Raw) {
        raw.d = bits(block, 0);
        raw.m = bits(block, 2);
        split_scales(&block[4..16], raw);
        for (k, code) in raw.codes.iter_mut().enumerate() {
            let (pair, high, l) = (k / 64, k / 32 % 2, k % 32);
            let low = (block[48 + 32 * pair + l] >> (4 * high)) & 15;
            let top = (block[16 + l] >> (2 * pair + high)) & 1;
            *code = low | (top << 4);
        }
    }
}
