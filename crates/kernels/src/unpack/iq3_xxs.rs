//! IQ3_XXS: points of four in the file, a 4-bit index of each weight in memory, and a scale for 32.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::Lookup;
use super::scales::SuperScale32;

/// The format IQ3_XXS.
pub(crate) struct Iq3Xxs;

impl Format for Iq3Xxs {
    const DTYPE: Dtype = Dtype::IQ3_XXS;
    type Layout = Blocks<Lookup, SuperScale32, 256, 128>;
    const VALUES: [i8; 16] = tensor::format::iq3_xxs::TABLE;
}
