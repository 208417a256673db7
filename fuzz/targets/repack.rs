//! Linear layers that other libraries quantized: codes, scales and zero points in their layouts.
//!
//! Looks for: a panic in checking a layer's parts or in writing its rows, rows that depend on how many are written at
//! once, and blocks with scales that are not finite.
//!
//! Input: 12 bytes (layout, rows, columns in 32s, columns too many, group in 32s, rows that share a scale, type of
//! scales, zero points, bytes of codes and of scales as u16), then codes, scales, zero points.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tensor::repack::{CodeLayout, Linear, Scales, ZeroLayout, Zeros};
use tensor::{Dtype, check_finite};

fuzz_target!(|bytes: &[u8]| {
    let Some((&[layout, rows, cols, more, group, scale_rows, dtype, zeros, c0, c1, s0, s1], rest)) =
        bytes.split_first_chunk::<12>()
    else {
        return;
    };
    let (codes, rest) = rest.split_at(usize::from(u16::from_le_bytes([c0, c1])).min(rest.len()));
    let (floats, words) = rest.split_at(usize::from(u16::from_le_bytes([s0, s1])).min(rest.len()));
    let layout = match layout % 7 {
        0 => CodeLayout::Rows { bits: 4 },
        1 => CodeLayout::Rows { bits: 8 },
        2 => CodeLayout::Columns { bits: 4 },
        3 => CodeLayout::Columns { bits: 8 },
        4 => CodeLayout::Awq,
        5 => CodeLayout::Int8,
        _ => CodeLayout::E4M3,
    };
    let shape = (usize::from(rows), 32 * usize::from(cols) + usize::from(more));
    let scales = Scales {
        dtype: [Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::Q8_0][usize::from(dtype % 4)],
        bytes: floats,
        rows: usize::from(scale_rows),
        cols: 32 * usize::from(group),
        columns_first: dtype & 4 != 0,
    };
    let packed = |layout| Zeros::Packed { bytes: words, layout };
    let zeros = match zeros % 5 {
        0 => Zeros::Middle,
        1 => packed(ZeroLayout::Gptq { plus: 1 }),
        2 => packed(ZeroLayout::Gptq { plus: 0 }),
        3 => packed(ZeroLayout::Awq),
        _ => packed(ZeroLayout::RowsFirst),
    };
    let Ok(linear) = Linear::new(shape, layout, codes, scales, zeros) else { return };
    let row_bytes = linear.dtype().row_bytes(shape.1).expect("a layer has rows of whole blocks");
    let mut all = vec![0; shape.0 * row_bytes];
    let written = linear.rows_into(0, &mut all);
    for (row, expected) in all.chunks_exact(row_bytes).enumerate() {
        let mut alone = vec![0; row_bytes];
        if linear.rows_into(row, &mut alone).is_ok() && written.is_ok() {
            assert_eq!(alone, expected, "row {row}");
        }
    }
    // A product of floats may still be no number; loading finds that.
    if written.is_ok() && linear.dtype() != Dtype::BF16 {
        check_finite(linear.dtype(), &all).expect("scales are finite");
    }
});
