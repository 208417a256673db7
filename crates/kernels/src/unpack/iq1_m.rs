//! IQ1_M: points of eight in the file, a 3-bit index of each weight in memory, and a scale for 16.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::Lookup3;
use super::scales::SuperScale16;

/// The format IQ1_M.
pub(crate) struct Iq1M;

impl Format for Iq1M {
    const DTYPE: Dtype = Dtype::IQ1_M;
    type Layout = Blocks<Lookup3, SuperScale16, 256, 128>;
    const VALUES: [i8; 16] = tensor::format::iq1_m::TABLE;
}
