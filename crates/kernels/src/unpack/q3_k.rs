//! Q3_K: 3 bits and a 6-bit signed scale for 16 weights, in super-blocks of 256.

use super::codes::TwoAndBit;
use super::scales::Super16;
use super::{Format, Raw, bits};

/// Q3_K: 3 bits and a 6-bit signed scale for 16 weights, in super-blocks of 256.
pub(crate) struct Q3K;

impl Format for Q3K {
    const WEIGHTS: usize = 256;
    const FILE_BYTES: usize = 110;
    const OFFSET: i32 = 4;
    type Codes = TwoAndBit;
    type Scales = Super16;

    fn split(block: &[u8], raw: &mut Raw) {
        raw.d = bits(block, 108);
        let packed = &block[96..108];
        for (i, small) in raw.small.iter_mut().enumerate() {
            let low = if i < 8 { packed[i] & 15 } else { packed[i - 8] >> 4 };
            let high = (packed[8 + i % 4] >> (2 * (i / 4))) & 3;
            *small = (low | (high << 4)).wrapping_sub(32);
        }
        for (k, code) in raw.codes.iter_mut().enumerate() {
            let (half, quarter, l) = (k / 128, k / 32 % 4, k % 32);
            let low = (block[32 + 32 * half + l] >> (2 * quarter)) & 3;
            let high = (block[l] >> (4 * half + quarter)) & 1;
            *code = low | (high << 2);
        }
    }
}
