//! Q2_K: 2 bits, a 4-bit scale and a 4-bit bias for 16 weights, in super-blocks of 256.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::Two;
use super::scales::SuperScaleBias16;

/// The format Q2_K.
pub(crate) struct Q2K;

impl Format for Q2K {
    const DTYPE: Dtype = Dtype::Q2_K;
    type Layout = Blocks<Two, SuperScaleBias16, 256, 0>;
}
