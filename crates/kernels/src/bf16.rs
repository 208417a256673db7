//! Conversion of floats to bf16.

/// Two floats as bfloat16, the first in the low half, rounded to nearest even.
#[inline(always)]
pub(crate) fn pair(low: f32, high: f32) -> u32 {
    bf16(low) | bf16(high) << 16
}

/// A float as bfloat16, in the low half, rounded to nearest even.
#[inline(always)]
pub(crate) fn bf16(v: f32) -> u32 {
    // Only a NaN must not become a number.
    if v.is_nan() { 0x7fc0 } else { bf16_of_number(v) }
}

/// [`bf16`] of what is no NaN, without a branch.
#[inline(always)]
pub(crate) fn bf16_of_number(v: f32) -> u32 {
    let bits = v.to_bits();
    // Rounding up carries into the exponent as it should.
    bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16
}
