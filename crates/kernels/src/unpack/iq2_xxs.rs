//! IQ2_XXS: points of eight in the file, a 3-bit index of each weight in memory, and a scale for 32.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::Lookup3;
use super::scales::SuperScale32;

/// The format IQ2_XXS.
pub(crate) struct Iq2Xxs;

impl Format for Iq2Xxs {
    const DTYPE: Dtype = Dtype::IQ2_XXS;
    type Layout = Blocks<Lookup3, SuperScale32, 256, 128>;
    const VALUES: [i8; 16] = tensor::format::iq2_xxs::TABLE;
}
