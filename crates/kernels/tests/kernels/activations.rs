//! Quantized activations, as products with the unit matrix show them.

use cpu::{Pool, Tier};
use kernels::{
    ActFormats, Activation, Activations, Compute, Matrix, Precision, activate, add_bias, has_pow2_scale,
    matmul,
};
use tensor::Dtype;

/// Activations that share a scale.
const BLOCK: usize = 32;

/// The unit matrix of `size`, a multiple of 32, whose codes and scales are ones: a product with it rounds nothing.
fn unit(c: &Compute, size: usize, precision: Precision) -> Matrix {
    let one = half::f16::ONE.to_le_bytes();
    let mut bytes = Vec::new();
    for row in 0..size {
        for block in 0..size / BLOCK {
            bytes.extend(one);
            bytes.extend((0..BLOCK).map(|k| u8::from(block * BLOCK + k == row)));
        }
    }
    Matrix::pack(c, Dtype::Q8_0, size, size, &bytes, precision).unwrap()
}

/// The rows `x` as the products with quantized weights see them.
fn seen(c: &Compute, cols: usize, x: &[f32], precision: Precision) -> Vec<f32> {
    let unit = unit(c, cols, precision);
    let mut a = Activations::new(x.len() / cols, cols);
    a.set(c, x, cols, unit.activations(), x.len() / cols);
    let mut out = vec![0.0; x.len()];
    matmul(c, &unit, &a, &mut out);
    out
}

#[test]
fn quantized_rows_are_within_half_a_step_on_every_tier() {
    let cols = 128;
    // Of every size, and with largest values from one power of two to the next.
    let size = |row: usize| (1.0 + row as f32 / 29.0) * 10.0f32.powi(row as i32 * 11 % 41 - 20);
    let x: Vec<f32> =
        (0..29 * cols).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.13 * size(i / cols)).collect();
    for tier in Tier::available() {
        let c = Compute::new(tier, Pool::new(2, None).unwrap());
        for (precision, steps) in [(Precision::Fast, 127.0), (Precision::Fine, 127.0 * 254.0)] {
            let got = seen(&c, cols, &x, precision);
            if unit(&c, cols, precision).activations().f16 {
                let off = x.iter().zip(&got).find(|(v, got)| (*got - *v).abs() > v.abs() / 2048.0);
                assert_eq!(off, None, "{tier} {precision:?}");
                continue;
            }
            // Steps that are sums of two powers of two are up to a fifth larger, and times the second power a sum of products is rounded to
            // the first, which shows where it is of one number and a code of one.
            let pow2 = precision == Precision::Fast && has_pow2_scale(tier);
            let off = if pow2 { 1.2 * 1.01 } else { 0.51 };
            for (x, got) in x.chunks(BLOCK).zip(got.chunks(BLOCK)) {
                let step = x.iter().fold(0.0f32, |m, v| m.max(v.abs())) / steps;
                for (v, got) in x.iter().zip(got) {
                    assert!(
                        (got - v).abs() <= step * off + v.abs() * 1e-6,
                        "{tier} {precision:?}: {got} for {v}"
                    );
                }
            }
        }
    }
}

#[test]
fn activated_rows_have_the_bits_of_separate_steps() {
    // More than one run of blocks, and a part of one.
    let (cols, out_rows) = (640 + 32, 16);
    let value = |i: usize, step: usize| ((i * step % 211) as f32 - 105.0) * 0.03;
    for tier in Tier::available() {
        let c = Compute::new(tier, Pool::new(2, None).unwrap());
        for (dtype, precision) in [
            (Dtype::Q8_0, Precision::Fast),
            (Dtype::Q8_0, Precision::Fine),
            (Dtype::Q8_0, Precision::F32),
            (Dtype::BF16, Precision::Fast),
            (Dtype::F16, Precision::Fast),
        ] {
            let weights: Vec<f32> = (0..out_rows * cols).map(|i| value(i, 89)).collect();
            let mut bytes = Vec::new();
            tensor::quantize(dtype, &weights, &mut bytes).unwrap();
            let w = Matrix::pack(&c, dtype, out_rows, cols, &bytes, precision).unwrap();
            let bias: Vec<f32> = (0..cols).map(|i| value(i, 57)).collect();
            for rows in [1, 5, 40] {
                let x: Vec<f32> = (0..rows * cols).map(|i| value(i, 37)).collect();
                let mut a = Activations::new(rows, cols);
                let product = |a: &Activations| {
                    let mut out = vec![0.0; rows * out_rows];
                    matmul(&c, &w, a, &mut out);
                    out
                };
                for bias in [Some(&bias[..]), None] {
                    let mut apart = x.clone();
                    if let Some(bias) = bias {
                        add_bias(&c, &mut apart, bias);
                    }
                    activate(&c, Activation::Gelu, &mut apart);
                    a.set(&c, &apart, cols, w.activations(), rows);
                    let want = product(&a);
                    a.set_activated(&c, Activation::Gelu, bias, &mut x.clone(), cols, w.activations(), rows);
                    assert_eq!(product(&a), want, "{tier} {dtype} {precision:?} {rows} rows");
                    assert!(want.iter().all(|v| v.is_finite() && *v != 0.0));
                }
            }
        }
    }
}

#[test]
fn hostile_values_give_no_panic_and_finite_scales() {
    for tier in Tier::available() {
        let c = Compute::new(tier, Pool::new(1, None).unwrap());
        for v in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE / 4.0, 1e-45, f32::MAX] {
            let mut x = vec![0.25; 64];
            x[3] = v;
            Activations::new(1, 64).set(
                &c,
                &x,
                64,
                ActFormats { q8: true, bf16: true, f16: true, f32: true, ..ActFormats::default() },
                1,
            );
            let got = seen(&c, 64, &x, Precision::Fast);
            // A row of halves has one scale, so that what is lost beside is lost, and no number goes to all that read the row.
            if unit(&c, 64, Precision::Fast).activations().f16 {
                let alone = |(i, g): (usize, &f32)| i == 3 || (g - 0.25).abs() < 1e-3;
                assert!(
                    v.abs() > 1e9 || v.is_nan() || got.iter().enumerate().all(alone),
                    "{tier}: {got:?} for {v}"
                );
                // The largest number rounds up to infinity.
                let finite = v.is_finite() && v < f32::MAX;
                assert!(!finite || got.iter().all(|g| g.is_finite()), "{tier}: {got:?} for {v}");
                continue;
            }
            // A scale that is not finite would make numbers of the codes that are zero no numbers.
            assert!(got.iter().all(|g| !g.is_nan()), "{tier}: {got:?} for {v}");
            // The other block keeps its values.
            assert!(got[32..].iter().all(|g| (g - 0.25).abs() < 1e-3), "{tier}: {got:?} for {v}");
        }
    }
}
