//! IQ3_XXS: points of four in the file, a 4-bit index of each weight in memory, and a scale for 32.

use tensor::Dtype;

use super::Format;
use super::codes::{Lookup, Table, biased};
use super::scales::SuperScale32;

/// The format IQ3_XXS.
pub(crate) struct Iq3Xxs;

impl Format for Iq3Xxs {
    const DTYPE: Dtype = Dtype::IQ3_XXS;
    type Codes = Lookup<Iq3Xxs>;
    type Scales = SuperScale32;
}

impl Table for Iq3Xxs {
    const VALUES: [u8; 16] = biased(&tensor::format::iq3_xxs::TABLE);
}
