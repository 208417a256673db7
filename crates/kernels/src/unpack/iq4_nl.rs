//! IQ4_NL: a 4-bit index into sixteen uneven steps, and a scale for 32 weights.

use tensor::Dtype;

use super::Format;
use super::codes::{Lookup, Table, biased};
use super::scales::F16Scale;

/// The format IQ4_NL.
pub(crate) struct Iq4Nl;

impl Format for Iq4Nl {
    const DTYPE: Dtype = Dtype::IQ4_NL;
    type Codes = Lookup<Iq4Nl>;
    type Scales = F16Scale;
}

impl Table for Iq4Nl {
    const VALUES: [u8; 16] = biased(&tensor::format::iq4_nl::TABLE);
}
