//! IQ2_XS: points of eight in the file, a 3-bit index of each weight in memory, and a scale for 16.

use tensor::Dtype;

use super::Format;
use super::codes::{Lookup3, Table, biased};
use super::scales::SuperScale16;

/// The format IQ2_XS.
pub(crate) struct Iq2Xs;

impl Format for Iq2Xs {
    const DTYPE: Dtype = Dtype::IQ2_XS;
    type Codes = Lookup3<Iq2Xs>;
    type Scales = SuperScale16;
}

impl Table for Iq2Xs {
    const VALUES: [u8; 16] = biased(&tensor::format::iq2_xs::TABLE);
}
