//! Linear layers that other libraries quantized, written as blocks of a format that is computed with.
//!
//! | layer | becomes | exact |
//! |---|---|---|
//! | 4 bits without zero points | Q4_0 | if f16 holds the scales |
//! | 4 bits with zero points of 4 bits (GPTQ, AWQ, compressed-tensors) | Q5_0, whose code is code − zero point + 16 | likewise |
//! | 8 bits | Q8_0 | likewise |
//! | 8-bit floats (E4M3) | BF16 | if the products fit 8 bits, as with powers of two; else rounded to nearest |
//!
//! Scales of f16 are taken over bit for bit, scales of bf16 from 2⁻¹⁷ on are exact too; others are rounded to the nearest
//! f16, off by at most 2⁻¹¹ of themselves from 2⁻¹⁴ on, by 2⁻²⁵ below.

mod codes;
mod error;
mod linear;
mod write;

pub use codes::CodeLayout;
pub use error::Error;
pub use linear::{Linear, Scales, ZeroLayout, Zeros};
