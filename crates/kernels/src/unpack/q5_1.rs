//! Q5_1: 5 bits, a scale and a bias for 32 weights.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::NibbleAndBit;
use super::scales::F16ScaleBias;

/// The format Q5_1.
pub(crate) struct Q5_1;

impl Format for Q5_1 {
    const DTYPE: Dtype = Dtype::Q5_1;
    type Layout = Blocks<NibbleAndBit, F16ScaleBias, 32, 0>;
}
