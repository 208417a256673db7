//! Q3_K: 3 bits and a 6-bit signed scale for 16 weights, in super-blocks of 256.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::TwoAndBit;
use super::scales::SuperScale16;

/// The format Q3_K.
pub(crate) struct Q3K;

impl Format for Q3K {
    const DTYPE: Dtype = Dtype::Q3_K;
    type Layout = Blocks<TwoAndBit, SuperScale16, 256, 4>;
}
