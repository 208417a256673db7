//! IQ4_NL: a 4-bit index into sixteen uneven steps, and a scale for 32 weights.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::Lookup;
use super::scales::F16Scale;

/// The format IQ4_NL.
pub(crate) struct Iq4Nl;

impl Format for Iq4Nl {
    const DTYPE: Dtype = Dtype::IQ4_NL;
    type Layout = Blocks<Lookup, F16Scale, 32, 128>;
    const VALUES: [i8; 16] = tensor::format::iq4_nl::TABLE;
}
