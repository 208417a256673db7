//! IQ1_S: points of eight in the file, a 3-bit index of each weight in memory, and a scale for 32.

use tensor::Dtype;

use super::Format;
use super::codes::{Lookup3, Table, biased};
use super::scales::SuperScale32;

/// The format IQ1_S.
pub(crate) struct Iq1S;

impl Format for Iq1S {
    const DTYPE: Dtype = Dtype::IQ1_S;
    type Codes = Lookup3<Iq1S>;
    type Scales = SuperScale32;
}

impl Table for Iq1S {
    const VALUES: [u8; 16] = biased(&tensor::format::iq1_s::TABLE);
}
