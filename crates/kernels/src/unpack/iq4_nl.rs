//! IQ4_NL: a 4-bit index into sixteen uneven steps, and a scale for 32 weights.

use super::codes::{Lookup, Table, biased};
use super::scales::Half;
use super::{Format, Raw, bits};

/// IQ4_NL: a 4-bit index into sixteen uneven steps, and a scale for 32 weights.
pub(crate) struct Iq4Nl;

impl Table for Iq4Nl {
    const VALUES: [u8; 16] =
        biased([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]);
}

impl Format for Iq4Nl {
    const WEIGHTS: usize = 32;
    const FILE_BYTES: usize = 18;
    const OFFSET: i32 = 128;
    type Codes = Lookup<Iq4Nl>;
    type Scales = Half;

    fn split(block: &[u8], raw: &mut Raw) {
        raw.d = bits(block, 0);
        for (i, &q) in block[2..].iter().take(16).enumerate() {
            raw.codes[i] = q & 15;
            raw.codes[i + 16] = q >> 4;
        }
    }
}
