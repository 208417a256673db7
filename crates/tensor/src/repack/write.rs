//! Blocks of the formats that layers become.

use half::{bf16, f16};

use super::codes::PIECE;
use super::error::Error;
use crate::Dtype;
use crate::format::{bits, q4_0, q5_0, q8_0};

/// 32 weights that are written.
pub(super) struct Block {
    pub(super) dtype: Dtype,
    pub(super) row: usize,
    /// The first column.
    pub(super) col: usize,
    pub(super) scale: f32,
}

impl Block {
    /// Writes them into their place in `out`, the whole row; `zero` is the code that means zero.
    pub(super) fn write(&self, zero: i32, codes: &[u8; PIECE], out: &mut [u8]) -> Result<(), Error> {
        let &Block { dtype, row, col, scale } = self;
        let size = PIECE / dtype.block_weights() * dtype.block_bytes();
        let out = &mut out[col / PIECE * size..][..size];
        if dtype == Dtype::BF16 {
            for (out, code) in out.as_chunks_mut::<2>().0.iter_mut().zip(codes) {
                *out = bf16::from_f32(e4m3(*code) * scale).to_le_bytes();
            }
            return Ok(());
        }
        let d = f16::from_f32(scale);
        if !d.is_finite() {
            return Err(Error::Scale { row, col, value: scale });
        }
        let (least, most) = match dtype {
            Dtype::Q4_0 => (-8, 7),
            Dtype::Q5_0 => (-16, 15),
            _ => (-128, 127),
        };
        let mut steps = [0; PIECE];
        for (i, (step, code)) in steps.iter_mut().zip(codes).enumerate() {
            let value = i32::from(*code) - zero;
            if value < least || value > most {
                return Err(Error::Code { dtype, row, col: col + i, value, least, most });
            }
            // The codes of the first two formats count from their least; those of the third are signed bytes.
            *step = if dtype == Dtype::Q8_0 { value as u8 } else { (value - least) as u8 };
        }
        let d = d.to_le_bytes();
        match dtype {
            Dtype::Q4_0 => {
                out[q4_0::D..q4_0::D + 2].copy_from_slice(&d);
                bits::put_nibbles(&steps, 16, &mut out[q4_0::QS..]);
            }
            Dtype::Q5_0 => {
                out[q5_0::D..q5_0::D + 2].copy_from_slice(&d);
                bits::put_fifth_bits(&steps, &mut out[q5_0::QH..q5_0::QS]);
                bits::put_nibbles(&steps, 16, &mut out[q5_0::QS..]);
            }
            _ => {
                out[q8_0::D..q8_0::D + 2].copy_from_slice(&d);
                out[q8_0::QS..].copy_from_slice(&steps);
            }
        }
        Ok(())
    }
}

/// The float that eight bits mean: a sign, four bits of exponent, three of mantissa; no infinities, one NaN of either sign
/// (E4M3 of the OCP 8-bit Floating Point Specification).
fn e4m3(byte: u8) -> f32 {
    let (exponent, mantissa) = (u32::from(byte >> 3 & 15), f32::from(byte & 7));
    let magnitude = match (exponent, byte & 7) {
        (15, 7) => f32::NAN,
        (0, _) => mantissa * f32::from_bits((127 - 9) << 23),
        _ => (8.0 + mantissa) * f32::from_bits((127 - 10 + exponent) << 23),
    };
    if byte >> 7 == 0 { magnitude } else { -magnitude }
}
