//! Q5_0: 5 bits and a scale for 32 weights.

use super::codes::NibbleAndBit;
use super::scales::Half;
use super::{Format, Raw, bits};

/// Q5_0: 5 bits and a scale for 32 weights.
pub(crate) struct Q5_0;

impl Format for Q5_0 {
    const WEIGHTS: usize = 32;
    const FILE_BYTES: usize = 22;
    const OFFSET: i32 = 16;
    type Codes = NibbleAndBit;
    type Scales = Half;

    fn split(block: &[u8], raw: &mut Raw) {
        raw.d = bits(block, 0);
        for i in 0..16 {
            let (low, high) = (block[6 + i], |bit: usize| (block[2 + bit / 8] >> (bit % 8)) & 1);
            raw.codes[i] = (low & 15) | (high(i) << 4);
            raw.codes[i + 16] = (low >> 4) | (high(i + 16) << 4);
        }
    }
}
