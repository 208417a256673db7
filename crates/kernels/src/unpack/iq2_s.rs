//! IQ2_S: points of eight in the file, a 3-bit index of each weight in memory, and a scale for 16.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::Lookup3;
use super::scales::SuperScale16;

/// The format IQ2_S.
pub(crate) struct Iq2S;

impl Format for Iq2S {
    const DTYPE: Dtype = Dtype::IQ2_S;
    type Layout = Blocks<Lookup3, SuperScale16, 256, 128>;
    const VALUES: [i8; 16] = tensor::format::iq2_s::TABLE;
}
