//! Q5_K: 5 bits, a 6-bit scale and a 6-bit bias for 32 weights, in super-blocks of 256.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::NibbleAndBit;
use super::scales::SuperScaleBias32;

/// The format Q5_K.
pub(crate) struct Q5K;

impl Format for Q5K {
    const DTYPE: Dtype = Dtype::Q5_K;
    type Layout = Blocks<NibbleAndBit, SuperScaleBias32, 256, 0>;
}
