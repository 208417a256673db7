//! IQ3_S: points of four in the file, a 4-bit index of each weight in memory, and a scale for 32.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::Lookup;
use super::scales::SuperScale32;

/// The format IQ3_S.
pub(crate) struct Iq3S;

impl Format for Iq3S {
    const DTYPE: Dtype = Dtype::IQ3_S;
    type Layout = Blocks<Lookup, SuperScale32, 256, 128>;
    const VALUES: [i8; 16] = tensor::format::iq3_s::TABLE;
}
