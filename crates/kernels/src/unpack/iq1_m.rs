//! IQ1_M: points of eight in the file, a 3-bit index of each weight in memory, and a scale for 16.

use tensor::Dtype;

use super::Format;
use super::codes::{Lookup3, Table, biased};
use super::scales::SuperScale16;

/// The format IQ1_M.
pub(crate) struct Iq1M;

impl Format for Iq1M {
    const DTYPE: Dtype = Dtype::IQ1_M;
    type Codes = Lookup3<Iq1M>;
    type Scales = SuperScale16;
}

impl Table for Iq1M {
    const VALUES: [u8; 16] = biased(&tensor::format::iq1_m::TABLE);
}
