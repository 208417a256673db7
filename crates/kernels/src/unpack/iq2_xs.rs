//! IQ2_XS: points of eight in the file, a 3-bit index of each weight in memory, and a scale for 16.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::Lookup3;
use super::scales::SuperScale16;

/// The format IQ2_XS.
pub(crate) struct Iq2Xs;

impl Format for Iq2Xs {
    const DTYPE: Dtype = Dtype::IQ2_XS;
    type Layout = Blocks<Lookup3, SuperScale16, 256, 128>;
    const VALUES: [i8; 16] = tensor::format::iq2_xs::TABLE;
}
