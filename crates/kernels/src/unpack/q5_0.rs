//! Q5_0: 5 bits and a scale for 32 weights.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::NibbleAndBit;
use super::scales::F16Scale;

/// The format Q5_0.
pub(crate) struct Q5_0;

impl Format for Q5_0 {
    const DTYPE: Dtype = Dtype::Q5_0;
    type Layout = Blocks<NibbleAndBit, F16Scale, 32, 16>;
}
