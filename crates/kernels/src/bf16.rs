//! Rounding of `f32` to bf16.

/// Two floats as bf16, the first in the low half, rounded to nearest even.
#[inline(always)]
pub(crate) fn pair(low: f32, high: f32) -> u32 {
    bf16(low) | bf16(high) << 16
}

/// A float as bf16 in the low half, rounded to nearest even.
#[inline(always)]
pub(crate) fn bf16(v: f32) -> u32 {
    // Rounding could turn a NaN into infinity.
    if v.is_nan() { 0x7fc0 } else { bf16_of_number(v) }
}

/// [`bf16`] of a value that is not NaN, without a branch.
#[inline(always)]
pub(crate) fn bf16_of_number(v: f32) -> u32 {
    let bits = v.to_bits();
    // A carry into the exponent is correct.
    bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16
}
