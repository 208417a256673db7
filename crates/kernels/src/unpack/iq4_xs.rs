//! IQ4_XS: the steps of IQ4_NL with a 6-bit signed scale for 32 weights, in super-blocks of 256.

use super::codes::Lookup;
use super::scales::Super;
use super::{Format, Iq4Nl, Raw, bits};

/// IQ4_XS: the steps of IQ4_NL with a 6-bit signed scale for 32 weights, in super-blocks of 256.
pub(crate) struct Iq4Xs;

impl Format for Iq4Xs {
    const WEIGHTS: usize = 256;
    const FILE_BYTES: usize = 136;
    const OFFSET: i32 = 128;
    type Codes = Lookup<Iq4Nl>;
    type Scales = Super;

    fn split(block: &[u8], raw: &mut Raw) {
        raw.d = bits(block, 0);
        let high = bits(block, 2);
        for i in 0..8 {
            let low = (block[4 + i / 2] >> (4 * (i % 2))) & 15;
            let high = (high >> (2 * i)).to_le_bytes()[0] & 3;
            raw.small[i] = (low | (high << 4)).wrapping_sub(32);
        }
        for (k, code) in raw.codes.iter_mut().enumerate() {
            let (sub, high, l) = (k / 32, k / 16 % 2, k % 16);
            *code = (block[8 + 16 * sub + l] >> (4 * high)) & 15;
        }
    }
}
