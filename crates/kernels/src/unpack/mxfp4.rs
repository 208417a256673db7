//! MXFP4: 4-bit floats (E2M1) and a power of two for 32 weights (OCP Microscaling Formats v1.0).

use super::codes::{Lookup, Table, biased};
use super::scales::Exponent;
use super::{Format, Raw};

/// MXFP4: 4-bit floats (E2M1) and a power of two for 32 weights (OCP Microscaling Formats v1.0).
pub(crate) struct Mxfp4;

// Twice the E2M1 values, as the scale is halved.
impl Table for Mxfp4 {
    const VALUES: [u8; 16] = biased([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]);
}

impl Format for Mxfp4 {
    const WEIGHTS: usize = 32;
    const FILE_BYTES: usize = 17;
    const OFFSET: i32 = 128;
    type Codes = Lookup<Mxfp4>;
    type Scales = Exponent;

    fn split(block: &[u8], raw: &mut Raw) {
        raw.d = u16::from(block[0]);
        for (i, &q) in block[1..].iter().take(16).enumerate() {
            raw.codes[i] = q & 15;
            raw.codes[i + 16] = q >> 4;
        }
    }
}
