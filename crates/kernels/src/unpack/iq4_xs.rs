//! IQ4_XS: the steps of IQ4_NL with a 6-bit signed scale for 32 weights, in super-blocks of 256.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::Lookup;
use super::scales::SuperScale32;

/// The format IQ4_XS.
pub(crate) struct Iq4Xs;

impl Format for Iq4Xs {
    const DTYPE: Dtype = Dtype::IQ4_XS;
    type Layout = Blocks<Lookup, SuperScale32, 256, 128>;
    const VALUES: [i8; 16] = tensor::format::iq4_nl::TABLE;
}
