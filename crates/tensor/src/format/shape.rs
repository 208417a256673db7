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
    /// The power of two that scales are counted in: 0, or less where codes are multiples of a fraction.
    pub unit_exponent: i32,
}

impl BlockShape {
    /// `2^unit_exponent`.
    pub const fn unit(self) -> f32 {
        f32::from_bits(((127 + self.unit_exponent) as u32) << 23)
    }
}

/// The raw scales of a block: group `g` has `scale = unit * f16(d) * sub_scales[g]` with [`BlockShape::unit`], and
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
