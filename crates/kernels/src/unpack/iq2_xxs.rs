//! IQ2_XXS: points of eight in the file, a 3-bit index of each weight in memory, and a scale for 32.

use tensor::Dtype;

use super::Format;
use super::codes::{Lookup3, Table, biased};
use super::scales::SuperScale32;

/// The format IQ2_XXS.
pub(crate) struct Iq2Xxs;

impl Format for Iq2Xxs {
    const DTYPE: Dtype = Dtype::IQ2_XXS;
    type Codes = Lookup3<Iq2Xxs>;
    type Scales = SuperScale32;
}

impl Table for Iq2Xxs {
    const VALUES: [u8; 16] = biased(&tensor::format::iq2_xxs::TABLE);
}
