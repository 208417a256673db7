//! IQ2_S: points of eight in the file, a 3-bit index of each weight in memory, and a scale for 16.

use tensor::Dtype;

use super::Format;
use super::codes::{Lookup3, Table, biased};
use super::scales::SuperScale16;

/// The format IQ2_S.
pub(crate) struct Iq2S;

impl Format for Iq2S {
    const DTYPE: Dtype = Dtype::IQ2_S;
    type Codes = Lookup3<Iq2S>;
    type Scales = SuperScale16;
}

impl Table for Iq2S {
    const VALUES: [u8; 16] = biased(&tensor::format::iq2_s::TABLE);
}
