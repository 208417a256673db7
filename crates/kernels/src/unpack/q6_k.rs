//! Q6_K: 6 bits and an 8-bit scale for 16 weights, in super-blocks of 256.

use super::codes::NibbleAndTwo;
use super::scales::Super16;
use super::{Format, Raw, bits};

/// Q6_K: 6 bits and an 8-bit scale for 16 weights, in super-blocks of 256.
pub(crate) struct Q6K;

impl Format for Q6K {
    const WEIGHTS: usize = 256;
    const FILE_BYTES: usize = 210;
    const OFFSET: i32 = 32;
    type Codes = NibbleAndTwo;
    type Scales = Super16;

    fn split(block: &[u8], raw: &mut Raw) {
        raw.d = bits(block, 208);
        raw.small.copy_from_slice(&block[192..208]);
        for (k, code) in raw.codes.iter_mut().enumerate() {
            let (half, quarter, l) = (k / 128, k / 32 % 4, k % 32);
            let low = (block[64 * half + 32 * (quarter % 2) + l] >> (4 * (quarter / 2))) & 15;
            let high = (block[128 + 32 * half + l] >> (2 * quarter)) & 3;
            *code = low | (high << 4);
        }
    }
}
