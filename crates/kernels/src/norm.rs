//! Row norms. A row is summed in lane order, whatever the batch.

use cpu::lanes::{Job, Simd, dispatch};

use crate::Compute;
use crate::elementwise::in_rows;

/// `out = x / rms(x) · weight` for each row of `x`, `[rows, cols]`, with `rms(x) = sqrt(mean(x²) + eps)`
/// (Zhang and Sennrich, 2019). Also for per-head norms, with `cols` the head's width.
///
/// # Panics
/// When shapes do not fit.
pub fn rms_norm(c: &Compute, x: &[f32], weight: &[f32], eps: f32, cols: usize, out: &mut [f32]) {
    assert!(weight.len() == cols && x.len() == out.len(), "norm of {} by {cols}", x.len());
    in_rows(c, out, cols, &|first, out| {
        let x = &x[first * cols..][..out.len()];
        dispatch(c.tier, Norm { x, weight, bias: None, eps, mean: false, out });
    });
}

/// [`rms_norm`] in place.
///
/// # Panics
/// When shapes do not fit.
pub fn rms_norm_in_place(c: &Compute, x: &mut [f32], weight: &[f32], eps: f32, cols: usize) {
    assert_eq!(weight.len(), cols, "norm weights");
    in_rows(c, x, cols, &|_, x| dispatch(c.tier, NormInPlace { x, weight, eps }));
}

/// `out = (x − mean(x)) / sqrt(var(x) + eps) · weight + bias` for each row (Ba, Kiros and Hinton, 2016).
///
/// # Panics
/// When shapes do not fit.
pub fn layer_norm(
    c: &Compute,
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    eps: f32,
    cols: usize,
    out: &mut [f32],
) {
    assert!(weight.len() == cols && x.len() == out.len(), "norm of {} by {cols}", x.len());
    assert!(bias.is_none_or(|b| b.len() == cols), "norm bias");
    in_rows(c, out, cols, &|first, out| {
        let x = &x[first * cols..][..out.len()];
        dispatch(c.tier, Norm { x, weight, bias, eps, mean: true, out });
    });
}

struct Norm<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
    eps: f32,
    mean: bool,
    out: &'a mut [f32],
}

impl Job for Norm<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let cols = self.weight.len();
        for (x, out) in self.x.chunks_exact(cols).zip(self.out.chunks_exact_mut(cols)) {
            let mean = if self.mean { sum(s, x) / cols as f32 } else { 0.0 };
            let factor = factor(s, x, mean, self.eps);
            for (i, (o, v)) in out.iter_mut().zip(x).enumerate() {
                *o = (v - mean) * factor * self.weight[i] + self.bias.map_or(0.0, |b| b[i]);
            }
        }
    }
}

struct NormInPlace<'a> {
    x: &'a mut [f32],
    weight: &'a [f32],
    eps: f32,
}

impl Job for NormInPlace<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let cols = self.weight.len();
        for x in self.x.chunks_exact_mut(cols) {
            let factor = factor(s, x, 0.0, self.eps);
            for (v, w) in x.iter_mut().zip(self.weight) {
                *v = *v * factor * w;
            }
        }
    }
}

/// One over the root of the mean square about `mean`.
#[inline(always)]
fn factor<S: Simd>(s: S, x: &[f32], mean: f32, eps: f32) -> f32 {
    1.0 / (squares(s, x, mean) / x.len() as f32 + eps).sqrt()
}

#[inline(always)]
fn sum<S: Simd>(s: S, x: &[f32]) -> f32 {
    let mut all = s.splat(0.0);
    let parts = x.chunks_exact(S::LANES);
    let rest: f32 = parts.remainder().iter().sum();
    for part in parts {
        all = s.add(all, s.load(part));
    }
    s.sum(all) + rest
}

#[inline(always)]
fn squares<S: Simd>(s: S, x: &[f32], mean: f32) -> f32 {
    let mut all = s.splat(0.0);
    let parts = x.chunks_exact(S::LANES);
    let rest: f32 = parts.remainder().iter().map(|v| (v - mean) * (v - mean)).sum();
    for part in parts {
        let v = s.sub(s.load(part), s.splat(mean));
        all = s.fma(v, v, all);
    }
    s.sum(all) + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpu::{Pool, Tier};

    #[test]
    fn norms_match_their_formulas_on_every_tier() {
        for tier in Tier::available() {
            let c = Compute::new(tier, Pool::new(2, None).unwrap());
            for cols in [1, 5, 16, 33, 100] {
                let x: Vec<f32> = (0..3 * cols).map(|i| ((i * 31 % 17) as f32 - 8.0) * 0.3).collect();
                let w: Vec<f32> = (0..cols).map(|i| 1.0 + i as f32 * 0.01).collect();
                let mut out = vec![0.0; x.len()];
                rms_norm(&c, &x, &w, 1e-5, cols, &mut out);
                let mut same = x.clone();
                rms_norm_in_place(&c, &mut same, &w, 1e-5, cols);
                assert_eq!(out, same);
                let mut centred = vec![0.0; x.len()];
                layer_norm(&c, &x, &w, Some(&w), 1e-5, cols, &mut centred);
                for (r, row) in x.chunks(cols).enumerate() {
                    let wide = |f: &dyn Fn(f64) -> f64| {
                        row.iter().map(|&v| f(f64::from(v))).sum::<f64>() / cols as f64
                    };
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
}
