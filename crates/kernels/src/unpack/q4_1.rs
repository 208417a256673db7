//! Q4_1: 4 bits, a scale and a bias for 32 weights.

use super::codes::Nibble;
use super::scales::HalfBias;
use super::{Format, Raw, bits};

/// Q4_1: 4 bits, a scale and a bias for 32 weights.
pub(crate) struct Q4_1;

impl Format for Q4_1 {
    const WEIGHTS: usize = 32;
    const FILE_BYTES: usize = 20;
    const OFFSET: i32 = 0;
    type Codes = Nibble;
    type Scales = HalfBias;

    fn split(block: &[u8], raw: &mut Raw) {
        raw.d = bits(block, 0);
        raw.m = bits(block, 2);
        for (i, &q) in block[4..].iter().take(16).enumerate() {
            raw.codes[i] = q & 15;
            raw.codes[i + 16] = q >> 4;
        }
    }
}
