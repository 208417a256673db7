//! IQ1_S: points of eight in the file, a 3-bit index of each weight in memory, and a scale for 32.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::Lookup3;
use super::scales::SuperScale32;

/// The format IQ1_S.
pub(crate) struct Iq1S;

impl Format for Iq1S {
    const DTYPE: Dtype = Dtype::IQ1_S;
    type Layout = Blocks<Lookup3, SuperScale32, 256, 128>;
    const VALUES: [i8; 16] = tensor::format::iq1_s::TABLE;
}
