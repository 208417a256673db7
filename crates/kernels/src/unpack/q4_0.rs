//! Q4_0: 4 bits and a scale for 32 weights.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::Nibble;
use super::scales::F16Scale;

/// The format Q4_0.
pub(crate) struct Q4_0;

impl Format for Q4_0 {
    const DTYPE: Dtype = Dtype::Q4_0;
    type Layout = Blocks<Nibble, F16Scale, 32, 8>;
}
