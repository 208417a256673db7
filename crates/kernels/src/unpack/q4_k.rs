//! Q4_K: 4 bits, a 6-bit scale and a 6-bit bias for 32 weights, in super-blocks of 256.

use super::codes::Nibble;
use super::scales::SuperBias;
use super::{Format, Raw, bits};

/// Q4_K: 4 bits, a 6-bit scale and a 6-bit bias for 32 weights, in super-blocks of 256.
pub(crate) struct Q4K;

/// The eight scales and minima of 6 bits each that Q4_K and Q5_K pack into twelve bytes.
pub(super) fn split_scales(packed: &[u8], raw: &mut Raw) {
    for i in 0..8 {
        (raw.small[i], raw.small_min[i]) = if i < 4 {
            (packed[i] & 63, packed[i + 4] & 63)
        } else {
            (
                (packed[i + 4] & 15) | ((packed[i - 4] >> 6) << 4),
                (packed[i + 4] >> 4) | ((packed[i] >> 6) << 4),
            )
        };
    }
}

impl Format for Q4K {
    const WEIGHTS: usize = 256;
    const FILE_BYTES: usize = 144;
    const OFFSET: i32 = 0;
    type Codes = Nibble;
    type Scales = SuperBias;

    fn split(block: &[u8], raw: &mut Raw) {
        raw.d = bits(block, 0);
        raw.m = bits(block, 2);
        split_scales(&block[4..16], raw);
        for (k, code) in raw.codes.iter_mut().enumerate() {
            let (pair, high, l) = (k / 64, k / 32 % 2, k % 32);
            *code = (block[16 + 32 * pair + l] >> (4 * high)) & 15;
        }
    }
}
