//! Q8_0: 8 bits and a scale for 32 weights.

use super::codes::Byte;
use super::scales::Half;
use super::{Format, Raw, bits};

/// Q8_0: 8 bits and a scale for 32 weights.
pub(crate) struct Q8_0;

impl Format for Q8_0 {
    const WEIGHTS: usize = 32;
    const FILE_BYTES: usize = 34;
    const OFFSET: i32 = 128;
    type Codes = Byte;
    type Scales = Half;

    fn split(block: &[u8], raw: &mut Raw) {
        raw.d = bits(block, 0);
        for (code, &q) in raw.codes.iter_mut().zip(&block[2..34]) {
            *code = q ^ 0x80;
        }
    }
}
