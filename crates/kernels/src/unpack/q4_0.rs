//! Q4_0: 4 bits and a scale for 32 weights.

use super::codes::Nibble;
use super::scales::Half;
use super::{Format, Raw, bits};

/// Q4_0: 4 bits and a scale for 32 weights.
pub(crate) struct Q4_0;

impl Format for Q4_0 {
    const WEIGHTS: usize = 32;
    const FILE_BYTES: usize = 18;
    const OFFSET: i32 = 8;
    type Codes = Nibble;
    type Scales = Half;

    fn split(block: &[u8], raw: &mut Raw) {
        raw.d = bits(block, 0);
        for (i, &q) in block[2..].iter().take(16).enumerate() {
            raw.codes[i] = q & 15;
            raw.codes[i + 16] = q >> 4;
        }
    }
}
