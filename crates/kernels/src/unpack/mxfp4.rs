//! MXFP4: 4-bit floats (E2M1) and a power of two for 32 weights (OCP Microscaling Formats v1.0).

use tensor::Dtype;

use super::Format;
use super::codes::{Lookup, Table, biased};
use super::scales::Exponent;

/// The format MXFP4.
pub(crate) struct Mxfp4;

impl Format for Mxfp4 {
    const DTYPE: Dtype = Dtype::MXFP4;
    type Codes = Lookup<Mxfp4>;
    type Scales = Exponent;
}

impl Table for Mxfp4 {
    const VALUES: [u8; 16] = biased(&tensor::format::mxfp4::TABLE);
}
