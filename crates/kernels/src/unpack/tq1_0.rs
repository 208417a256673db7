//! TQ1_0: -1, 0 and 1, and a scale for 256 weights; five to a byte in the file, 2 bits each in memory.

use tensor::Dtype;

use super::Format;
use super::blocks::Blocks;
use super::codes::Two;
use super::scales::F16Scale;

/// The format TQ1_0.
pub(crate) struct Tq1;

impl Format for Tq1 {
    const DTYPE: Dtype = Dtype::TQ1_0;
    type Layout = Blocks<Two, F16Scale, 256, 1>;
}
