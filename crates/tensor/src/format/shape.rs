//! What a quantized format says of its blocks: their shape, and how their scales are read.

/// The shape of a quantized format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockShape {
    /// Weights that share a scale: 16 or 32.
    pub group: usize,
    /// What is taken from a code before it is scaled.
    pub offset: i32,
    /// Whether groups have a minimum.
    pub has_min: bool,
    /// Codes are `0..=max_code`.
    pub max_code: u8,
}

/// The raw scales of a block: group `g` has `scale = f16(d) * sub_scales[g]` and
/// `min = f16(dmin) * sub_minima[g]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuperScales {
    /// Bits of the f16 that multiplies the sub-scales.
    pub d: u16,
    /// Bits of the f16 that multiplies the sub-minima; 0 where the format has none.
    pub dmin: u16,
}

/// Reads the sub-scales and sub-minima of a block.
pub(super) type ReadSubScales = fn(block: &[u8], sub_scales: &mut [i8], sub_minima: &mut [u8]) -> SuperScales;
