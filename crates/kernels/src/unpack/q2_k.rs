//! Q2_K: 2 bits, a 4-bit scale and a 4-bit bias for 16 weights, in super-blocks of 256.

use super::codes::Two;
use super::scales::SuperBias16;
use super::{Format, Raw, bits};

/// Q2_K: 2 bits, a 4-bit scale and a 4-bit bias for 16 weights, in super-blocks of 256.
pub(crate) struct Q2K;

impl Format for Q2K {
    const WEIGHTS: usize = 256;
    const FILE_BYTES: usize = 84;
    const OFFSET: i32 = 0;
    type Codes = Two;
    type Scales = SuperBias16;

    fn split(block: &[u8], raw: &mut Raw) {
        raw.d = bits(block, 80);
        raw.m = bits(block, 82);
        for (i, &both) in block[..16].iter().enumerate() {
            raw.small[i] = both & 15;
            raw.small_min[i] = both >> 4;
        }
        for (k, code) in raw.codes.iter_mut().enumerate() {
            let (half, shift, l) = (k / 128, k / 32 % 4 * 2, k % 32);
            *code = (block[16 + 32 * half + l] >> shift) & 3;
        }
    }
}
