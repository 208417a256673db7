//! MXFP4: 4-bit floats (E2M1) and a power of two for 32 weights (OCP Microscaling Formats v1.0).

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::Lookup;
use super::scales::Exponent;

/// The format MXFP4.
pub(crate) struct Mxfp4;

impl Format for Mxfp4 {
    const DTYPE: Dtype = Dtype::MXFP4;
    type Layout = Blocks<Lookup, Exponent, 32, 128>;
    const VALUES: [i8; 16] = tensor::format::mxfp4::TABLE;
}
