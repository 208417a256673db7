//! The layout of a format's blocks in a panel, which is all that micro-kernels know of a format.

use std::marker::PhantomData;

use super::codes::Codes;
use super::scales::Scales;

/// A layout of blocks: `weight = scale · (code − ZERO_POINT) + bias`. Formats of one layout share their micro-kernels; what
/// their codes mean is the [`Grid`](super::Grid), which is read at run time.
pub(crate) trait BlockLayout: 'static {
    /// The layout of codes.
    type Codes: Codes;
    /// The layout of scales.
    type Scales: Scales;
    /// Weights in a block of the file.
    const WEIGHTS: usize;
    /// The zero point: the code that means zero. Table look-ups yield the value plus 128.
    const ZERO_POINT: i32;
    /// Whether scales are multiplied by [`Grid::unit`](super::Grid::unit): one factor of f16 for the scales of a whole block.
    const HAS_UNIT: bool =
        Self::Codes::TABLE_LOOKUP && Self::Scales::HEAD_BYTES > 0 && Self::Scales::SUB_BYTES > 0;
}

/// Blocks of `WEIGHTS` weights with codes laid out as `C`, scales as `S`.
pub(crate) struct Blocks<C, S, const WEIGHTS: usize, const ZERO_POINT: i32>(PhantomData<(C, S)>);

impl<C: Codes, S: Scales, const WEIGHTS: usize, const ZERO_POINT: i32> BlockLayout
    for Blocks<C, S, WEIGHTS, ZERO_POINT>
{
    type Codes = C;
    type Scales = S;
    const WEIGHTS: usize = WEIGHTS;
    const ZERO_POINT: i32 = ZERO_POINT;
}
