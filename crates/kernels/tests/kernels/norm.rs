//! Norms against their formulas.

use cpu::{Pool, Tier};
use kernels::{Compute, RowNorm, add, add_bias, rms_norm_in_place};

#[test]
fn a_norm_of_sums_has_the_bits_of_its_parts() {
    for tier in Tier::available() {
        // In one thread and in several.
        for (rows, cols, threads) in
            [(3, 1, 1), (3, 5, 1), (4, 16, 1), (7, 33, 2), (2, 384, 1), (100, 384, 2)]
        {
            let c = Compute::new(tier, Pool::new(threads, None).unwrap());
            let values = |n: usize, step: usize| -> Vec<f32> {
                (0..n).map(|i| ((i * step % 103) as f32 - 51.0) * 0.07).collect()
            };
            let (x, y) = (values(rows * cols, 31), values(rows * cols, 17));
            let (weight, beta, bias) = (values(cols, 7), values(cols, 11), values(cols, 13));
            for (mean, beta, bias) in [
                (true, Some(&beta[..]), Some(&bias[..])),
                (true, Some(&beta[..]), None),
                (true, None, Some(&bias[..])),
                (false, None, None),
            ] {
                let norm = RowNorm { weight: &weight, bias: beta, eps: 1e-12, mean };
                let mut fused = x.clone();
                norm.add_rows(&c, &mut fused, &y, bias);
                let (mut sum, mut summand) = (x.clone(), y.clone());
                if let Some(bias) = bias {
                    add_bias(&c, &mut summand, bias);
                }
                add(&c, &mut sum, &summand);
                let mut apart = vec![0.0; x.len()];
                norm.rows(&c, &sum, &mut apart);
                assert_eq!(fused, apart, "{tier} {rows} x {cols}");
                assert_ne!(fused, x);
            }
        }
    }
}

#[test]
fn norms_match_their_formulas_on_every_tier() {
    for tier in Tier::available() {
        let c = Compute::new(tier, Pool::new(2, None).unwrap());
        for cols in [1, 5, 16, 33, 100] {
            let x: Vec<f32> = (0..3 * cols).map(|i| ((i * 31 % 17) as f32 - 8.0) * 0.3).collect();
            let w: Vec<f32> = (0..cols).map(|i| 1.0 + i as f32 * 0.01).collect();
            let mut out = vec![0.0; x.len()];
            let norm = RowNorm { weight: &w, bias: None, eps: 1e-5, mean: false };
            norm.rows(&c, &x, &mut out);
            let mut same = x.clone();
            rms_norm_in_place(&c, &mut same, &w, 1e-5, cols);
            assert_eq!(out, same);
            let mut centred = vec![0.0; x.len()];
            RowNorm { bias: Some(&w), mean: true, ..norm }.rows(&c, &x, &mut centred);
            for (r, row) in x.chunks(cols).enumerate() {
                let wide =
                    |f: &dyn Fn(f64) -> f64| row.iter().map(|&v| f(f64::from(v))).sum::<f64>() / cols as f64;
                let (mean, square) = (wide(&|v| v), wide(&|v| v * v));
                let var = wide(&|v| (v - mean) * (v - mean));
                for k in 0..cols {
                    let weight = f64::from(w[k]);
                    let want = f64::from(row[k]) / (square + 1e-5).sqrt() * weight;
                    assert!((f64::from(out[r * cols + k]) - want).abs() < 1e-5);
                    let want = (f64::from(row[k]) - mean) / (var + 1e-5).sqrt() * weight + weight;
                    assert!((f64::from(centred[r * cols + k]) - want).abs() < 2e-5);
                }
            }
        }
    }
}
