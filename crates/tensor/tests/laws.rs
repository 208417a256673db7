//! What holds for every format, whatever the bytes.

#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use half::f16;
use proptest::prelude::*;
use tensor::format::{MAX_BLOCK_BYTES, MAX_BLOCK_WEIGHTS, MAX_GROUPS, indices, scale_bytes, table};
use tensor::repack::{CodeLayout, Linear, Scales, ZeroLayout, Zeros};
use tensor::{Dtype, Error, block_shape, check_finite, codes, dequantize, quantize, sub_scales};

fn quantized() -> impl Iterator<Item = Dtype> {
    Dtype::ALL.into_iter().filter(|d| d.is_quantized())
}

/// One block's codes, scales and minima.
fn read(dtype: Dtype, block: &[u8]) -> (Vec<u8>, Vec<f32>, Vec<f32>) {
    let (weights, shape) = (dtype.block_weights(), block_shape(dtype).unwrap());
    let groups = weights / shape.group;
    let (mut q, mut scale, mut min) = (vec![0xaa; weights], vec![7.0; groups], vec![7.0; groups]);
    codes(dtype, block, &mut q, &mut scale, &mut min);
    (q, scale, min)
}

/// The largest error a quantized weight may have, for weights within ±`range` (a group spans at most `2 range`).
///
/// Half a step of the code grid; for K-quants also what rounding the 4- to 6-bit sub-scales and sub-minima to their
/// grid adds over all codes; a clamp at the positive end for the grids that reach one step further below zero.
fn budget(dtype: Dtype, range: f32) -> f32 {
    let steps = match dtype {
        Dtype::F32 => return 0.0,
        Dtype::F16 => return range / 2048.0 + 1e-7,
        Dtype::BF16 => return range / 256.0,
        // The step is range / 8 and the positive end loses one.
        Dtype::Q4_0 => 1.0 / 8.0,
        Dtype::Q5_0 => 1.0 / 16.0,
        Dtype::Q8_0 => 0.5 / 127.0,
        Dtype::Q4_1 => 1.0 / 15.0,
        Dtype::Q5_1 => 1.0 / 31.0,
        // Half a step of 2/3, sub-scales off by 1/30 of the largest over 3 codes, sub-minima by 1/30.
        Dtype::Q2_K => 1.0 / 3.0 + 2.0 / 30.0 + 1.0 / 30.0,
        Dtype::Q3_K => 1.0 / 4.0 + 1.0 / 64.0 * 4.0,
        Dtype::Q4_K => 1.0 / 15.0 + 3.0 / 126.0,
        Dtype::Q5_K => 1.0 / 31.0 + 3.0 / 126.0,
        Dtype::Q6_K => 1.0 / 32.0 + 1.0 / 128.0,
        // The widest gap of the table is 24, the positive end of it 113 of 127.
        Dtype::IQ4_NL => 14.0 / 127.0,
        Dtype::IQ4_XS => 14.0 / 127.0 + 1.0 / 32.0,
        // Steps of 2 below a largest value of 4 to 8; what lies above 6 is cut to it.
        Dtype::MXFP4 => 1.0 / 4.0,
        // The same gap of 2 below 6, a scale off by a sixteenth; what is below half the smallest scale, 2^-10, times 6
        // becomes zero.
        Dtype::NVFP4 => return range * (1.0 / 6.0 + 1.0 / 8.0) + 6.0 / 1024.0,
        Dtype::TQ1_0 | Dtype::TQ2_0 => 1.0 / 2.0,
        // A grid has few points, the nearest of which may miss one weight of eight by all of its reach; with an even number
        // of signs, the smallest may have the wrong one besides.
        Dtype::IQ1_S | Dtype::IQ1_M => 1.25,
        Dtype::IQ2_XXS | Dtype::IQ2_XS | Dtype::IQ2_S => 1.25,
        Dtype::IQ3_XXS | Dtype::IQ3_S => 1.0,
    };
    // Scales are rounded to f16.
    range * steps * 1.01 + range / 1024.0
}

#[test]
fn sub_scales_are_the_parts_of_the_final_scales() {
    let mut state = 1u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    for dtype in quantized() {
        for _ in 0..50 {
            let block: Vec<u8> = (0..dtype.block_bytes()).map(|_| random()).collect();
            if check_finite(dtype, &block).is_err() {
                continue;
            }
            let (_, scale, min) = read(dtype, &block);
            let (mut subs, mut minima) = (vec![99; scale.len()], vec![99; scale.len()]);
            let Some(sup) = sub_scales(dtype, &block, &mut subs, &mut minima) else {
                let bytes = scale_bytes(dtype, &block).unwrap();
                assert_eq!(bytes.len(), scale.len(), "{dtype}");
                continue;
            };
            assert_eq!(scale_bytes(dtype, &block), None, "{dtype}");
            let unit = block_shape(dtype).unwrap().unit();
            let (d, dmin) = (f16::from_bits(sup.d).to_f32(), f16::from_bits(sup.dmin).to_f32());
            for g in 0..scale.len() {
                assert_eq!(
                    (d * unit * f32::from(subs[g])).to_bits(),
                    scale[g].to_bits(),
                    "{dtype} group {g}"
                );
                assert_eq!(dmin * f32::from(minima[g]), min[g], "{dtype} group {g}");
            }
        }
    }
}

#[test]
fn indices_look_up_the_codes() {
    for dtype in Dtype::ALL {
        let mut index = vec![0; dtype.block_weights()];
        let block: Vec<u8> = (0..dtype.block_bytes()).map(|i| (i * 37 + 11) as u8).collect();
        let Some(table) = table(dtype) else {
            assert!(!indices(dtype, &block, &mut index));
            continue;
        };
        assert!(indices(dtype, &block, &mut index));
        let (q, _, _) = read(dtype, &block);
        let offset = block_shape(dtype).unwrap().offset;
        for (q, i) in q.iter().zip(&index) {
            assert_eq!(i32::from(*q) - offset, i32::from(table[usize::from(*i)]));
        }
    }
}

#[test]
fn a_scale_that_is_not_finite_is_found() {
    for dtype in Dtype::ALL {
        let weights = dtype.block_weights() * 3;
        let mut bytes = Vec::new();
        quantize(dtype, &vec![0.5; weights], &mut bytes).unwrap();
        check_finite(dtype, &bytes).unwrap();
        bytes[dtype.block_bytes() * 2..].fill(0xff);
        if dtype == Dtype::NVFP4 {
            // No byte means infinity or NaN.
            check_finite(dtype, &bytes).unwrap();
            continue;
        }
        let error = check_finite(dtype, &bytes).unwrap_err();
        assert!(
            matches!(error, Error::NotFinite { index, .. } if index == dtype.block_weights() * 2),
            "{error}"
        );
        assert!(check_finite(dtype, &vec![0; dtype.block_bytes() + 1]).is_err() || dtype.block_bytes() == 1);
    }
}

#[test]
fn wrong_lengths_are_errors_that_say_so() {
    let mut out = [0.0; 256];
    let error = dequantize(Dtype::Q4_K, &[0; 143], &mut out).unwrap_err().to_string();
    assert_eq!(error, "Q4_K: 256 weights take 144 bytes, 143 were given");
    let error = dequantize(Dtype::Q4_K, &[0; 144], &mut out[..255]).unwrap_err().to_string();
    assert_eq!(error, "Q4_K: 255 weights are not whole blocks of 256");
    assert!(quantize(Dtype::Q8_0, &[0.0; 33], &mut Vec::new()).is_err());
    let error = quantize(Dtype::Q8_0, &[f32::NAN; 32], &mut Vec::new()).unwrap_err();
    assert!(matches!(error, Error::NotFinite { index: 0, .. }));
}

proptest! {
    #[test]
    fn any_finite_block_decodes_to_the_law(bytes in proptest::collection::vec(any::<u8>(), MAX_BLOCK_BYTES)) {
        for dtype in quantized() {
            let block = &bytes[..dtype.block_bytes()];
            let shape = block_shape(dtype).unwrap();
            let (q, scale, min) = read(dtype, block);
            prop_assert!(q.len() <= MAX_BLOCK_WEIGHTS && scale.len() <= MAX_GROUPS);
            prop_assert!(q.iter().all(|&q| q <= shape.max_code));
            prop_assert!(shape.has_min || min.iter().all(|&m| m == 0.0));
            let mut out = vec![0.0; q.len()];
            dequantize(dtype, block, &mut out).unwrap();
            for (i, w) in out.iter().enumerate() {
                let g = i / shape.group;
                let law = scale[g] * (i32::from(q[i]) - shape.offset) as f32 - min[g];
                prop_assert!(law.to_bits() == w.to_bits() || law.is_nan() && w.is_nan());
            }
            if check_finite(dtype, block).is_ok() {
                prop_assert!(out.iter().all(|w| w.is_finite()), "{} {:?}", dtype, block);
            }
        }
    }

    #[test]
    fn quantizing_keeps_within_the_budget(
        values in proptest::collection::vec(-1.0f32..1.0, 512),
        scale in 1e-2f32..100.0,
    ) {
        let values: Vec<f32> = values.iter().map(|v| v * scale).collect();
        for dtype in Dtype::ALL {
            let mut bytes = Vec::new();
            quantize(dtype, &values, &mut bytes).unwrap();
            prop_assert_eq!(Some(bytes.len()), dtype.row_bytes(values.len()));
            let mut out = vec![0.0; values.len()];
            dequantize(dtype, &bytes, &mut out).unwrap();
            for (i, (a, b)) in out.iter().zip(&values).enumerate() {
                prop_assert!((a - b).abs() <= budget(dtype, scale), "{} weight {}: {} for {}", dtype, i, a, b);
            }
        }
    }

    #[test]
    fn numbers_on_the_grid_come_back(bytes in proptest::collection::vec(any::<u8>(), 32)) {
        // Weights that Q8_0 holds exactly survive it.
        let mut values: Vec<f32> = bytes.iter().map(|&b| f32::from((b as i8).max(-127)) * 0.5).collect();
        values[0] = 63.5;
        let mut encoded = Vec::new();
        quantize(Dtype::Q8_0, &values, &mut encoded).unwrap();
        let mut out = vec![0.0; 32];
        dequantize(Dtype::Q8_0, &encoded, &mut out).unwrap();
        prop_assert_eq!(out, values);
    }
}

/// Found by fuzzing: a word of 8-bit codes has four places, AWQ's order eight.
#[test]
fn zero_points_in_awq_order_go_with_codes_of_four_bits() {
    let scales = Scales { dtype: Dtype::F16, bytes: &[0; 16], rows: 1, cols: 32, columns_first: false };
    let zeros = Zeros::Packed { bytes: &[0; 8], layout: ZeroLayout::Awq };
    let refused = Linear::new((8, 32), CodeLayout::Rows { bits: 8 }, &[0; 256], scales, zeros).unwrap_err();
    assert_eq!(refused.to_string(), "zero points in AWQ's order go with codes of 4 bits, these have 8");
    let zeros = Zeros::Packed { bytes: &[0; 4], layout: ZeroLayout::Awq };
    let layer = Linear::new((8, 32), CodeLayout::Rows { bits: 4 }, &[0; 128], scales, zeros).unwrap();
    let mut rows = vec![0; 8 * layer.dtype().row_bytes(32).unwrap()];
    layer.rows_into(0, &mut rows).unwrap();
}
