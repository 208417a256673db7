//! Q4_K: 4 bits, a 6-bit scale and a 6-bit bias for 32 weights, in super-blocks of 256.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::Nibble;
use super::scales::SuperScaleBias32;

/// The format Q4_K.
pub(crate) struct Q4K;

impl Format for Q4K {
    const DTYPE: Dtype = Dtype::Q4_K;
    type Layout = Blocks<Nibble, SuperScaleBias32, 256, 0>;
}
