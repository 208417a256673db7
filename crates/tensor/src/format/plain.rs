//! F32, F16, BF16: one number after another, little endian.

use half::{bf16, f16};

use crate::Dtype;

/// Reads `out.len()` numbers; the lengths have been checked.
pub(super) fn decode(dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    let pairs = bytes.as_chunks::<2>().0;
    match dtype {
        Dtype::F16 => out.iter_mut().zip(pairs).for_each(|(w, b)| *w = f16::from_le_bytes(*b).to_f32()),
        Dtype::BF16 => out.iter_mut().zip(pairs).for_each(|(w, b)| *w = bf16::from_le_bytes(*b).to_f32()),
        _ => out.iter_mut().zip(bytes.as_chunks::<4>().0).for_each(|(w, b)| *w = f32::from_le_bytes(*b)),
    }
}

/// Appends `values`, rounded to the nearest, ties to even.
pub(super) fn encode(dtype: Dtype, values: &[f32], out: &mut Vec<u8>) {
    match dtype {
        Dtype::F16 => values.iter().for_each(|&v| out.extend(f16::from_f32(v).to_le_bytes())),
        Dtype::BF16 => values.iter().for_each(|&v| out.extend(bf16::from_f32(v).to_le_bytes())),
        _ => values.iter().for_each(|v| out.extend(v.to_le_bytes())),
    }
}
