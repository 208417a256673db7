//! NVFP4: 4-bit floats (E2M1) and an 8-bit float (E4M3) for 16 weights.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::Lookup;
use super::scales::E4M3Scale16;

/// The format NVFP4.
pub(crate) struct Nvfp4;

impl Format for Nvfp4 {
    const DTYPE: Dtype = Dtype::NVFP4;
    type Layout = Blocks<Lookup, E4M3Scale16, 64, 128>;
    const VALUES: [i8; 16] = tensor::format::mxfp4::TABLE;
}
