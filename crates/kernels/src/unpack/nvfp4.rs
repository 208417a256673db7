//! NVFP4: 4-bit floats (E2M1) and an 8-bit float (E4M3) for 16 weights.

use tensor::Dtype;

use super::Format;
use super::codes::{Lookup, Table, biased};
use super::scales::E4M3Scale16;

/// The format NVFP4.
pub(crate) struct Nvfp4;

impl Format for Nvfp4 {
    const DTYPE: Dtype = Dtype::NVFP4;
    type Codes = Lookup<Nvfp4>;
    type Scales = E4M3Scale16;
}

impl Table for Nvfp4 {
    const VALUES: [u8; 16] = biased(&tensor::format::mxfp4::TABLE);
}
