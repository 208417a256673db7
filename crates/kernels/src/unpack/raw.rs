//! A block of a weight file, parsed.

use tensor::format::{MAX_BLOCK_WEIGHTS, MAX_GROUPS};

/// Weights in a sub-block: the step of the product loops.
pub(crate) const SUB: usize = 32;
/// Quads in a sub-block.
pub(crate) const QUADS: usize = SUB / 4;

/// A block of the file, parsed.
pub(crate) struct RawBlock {
    /// The code of each weight, or its index into the format's table, in the order of k.
    pub(crate) codes: [u8; MAX_BLOCK_WEIGHTS],
    /// The block's scale, as bits of a half-precision float.
    pub(crate) d: u16,
    /// The block's factor of the minima, as bits of a half-precision float.
    pub(crate) dmin: u16,
    /// The scales, where the format has them as bytes.
    pub(crate) scale_bytes: [u8; MAX_GROUPS],
    /// Sub-block scales, one for each group of the format.
    pub(crate) sub_scales: [i8; MAX_GROUPS],
    /// Sub-block minima, one for each group of the format.
    pub(crate) sub_minima: [u8; MAX_GROUPS],
}

impl RawBlock {
    /// A block of zeros.
    pub(super) fn new() -> RawBlock {
        let (codes, sub_scales, sub_minima) = ([0; MAX_BLOCK_WEIGHTS], [0; MAX_GROUPS], [0; MAX_GROUPS]);
        RawBlock { codes, d: 0, dmin: 0, scale_bytes: [0; MAX_GROUPS], sub_scales, sub_minima }
    }
}
