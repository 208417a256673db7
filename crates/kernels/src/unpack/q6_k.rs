//! Q6_K: 6 bits and an 8-bit scale for 16 weights, in super-blocks of 256.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::Six;
use super::scales::SuperScale16;

/// The format Q6_K.
pub(crate) struct Q6K;

impl Format for Q6K {
    const DTYPE: Dtype = Dtype::Q6_K;
    type Layout = Blocks<Six, SuperScale16, 256, 32>;
}
