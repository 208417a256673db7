//! Q8_0: 8 bits and a scale for 32 weights.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::Byte;
use super::scales::F16Scale;

/// The format Q8_0.
pub(crate) struct Q8_0;

impl Format for Q8_0 {
    const DTYPE: Dtype = Dtype::Q8_0;
    type Layout = Blocks<Byte, F16Scale, 32, 128>;
}
