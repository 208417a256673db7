//! TQ2_0: -1, 0 and 1 in 2 bits, and a scale for 256 weights.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::Two;
use super::scales::F16Scale;

/// The format TQ2_0.
pub(crate) struct Tq2;

impl Format for Tq2 {
    const DTYPE: Dtype = Dtype::TQ2_0;
    type Layout = Blocks<Two, F16Scale, 256, 1>;
}
