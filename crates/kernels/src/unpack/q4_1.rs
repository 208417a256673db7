//! Q4_1: 4 bits, a scale and a bias for 32 weights.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::Nibble;
use super::scales::F16ScaleBias;

/// The format Q4_1.
pub(crate) struct Q4_1;

impl Format for Q4_1 {
    const DTYPE: Dtype = Dtype::Q4_1;
    type Layout = Blocks<Nibble, F16ScaleBias, 32, 0>;
}
