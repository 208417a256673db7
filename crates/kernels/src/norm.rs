//! Row norms: RMS norm and layer norm. A row is summed in lane order, whatever the batch.

use cpu::simd::{Job, Simd, dispatch};

use crate::elementwise::parallel_rows;
use crate::{Compute, partial};

/// Computes `x = x / rms(x) · weight` for each row of `x`, `[rows, cols]`, as [`RowNorm`]. Also for per-head norms,
/// with `cols` the head's width.
///
/// # Panics
/// When shapes do not fit.
pub fn rms_norm_in_place(c: &Compute, x: &mut [f32], weight: &[f32], eps: f32, cols: usize) {
    assert_eq!(weight.len(), cols, "norm weights");
    parallel_rows(c, x, cols, &|_, x| dispatch(c.tier, NormInPlace { x, weight, eps }));
}

/// Computes `x = factor · x / sqrt(sum(x²) + eps)` for each of `heads` heads of `dim` values, from column `at` on of each row
/// of `x`, `[rows, row_len]`.
///
/// # Panics
/// When shapes do not fit.
pub fn l2_norm_heads(
    c: &Compute,
    x: &mut [f32],
    row_len: usize,
    (at, heads, dim): (usize, usize, usize),
    eps: f32,
    factor: f32,
) {
    assert!(at + heads * dim <= row_len, "heads beyond a row of {row_len}");
    parallel_rows(c, x, row_len, &|_, x| {
        for row in x.chunks_exact_mut(row_len) {
            dispatch(c.tier, L2Norm { x: &mut row[at..at + heads * dim], dim, eps, factor });
        }
    });
}

struct L2Norm<'a> {
    x: &'a mut [f32],
    dim: usize,
    eps: f32,
    factor: f32,
}

impl Job for L2Norm<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for x in self.x.chunks_exact_mut(self.dim) {
            let factor = s.splat(self.factor / (squares(s, x, 0.0) + self.eps).sqrt());
            for at in (0..self.dim).step_by(S::LANES) {
                let v = s.mul(partial::load(s, x, at), factor);
                partial::store(s, v, x, at);
            }
        }
    }
}

/// A row norm: `x / rms(x) · weight + bias` with `rms(x) = sqrt(mean(x²) + eps)` (Zhang and Sennrich, 2019), of `x` or
/// of `x − mean(x)` (Ba, Kiros and Hinton, 2016). Computed by [`RowNorm::rows`], or fused with quantization by
/// [`Activations::set_normed`](crate::Activations::set_normed).
#[derive(Clone, Copy, Debug)]
pub struct RowNorm<'a> {
    /// The weight of each column.
    pub weight: &'a [f32],
    /// The bias of each column.
    pub bias: Option<&'a [f32]>,
    /// Epsilon: added to the mean square.
    pub eps: f32,
    /// Whether the row's mean is subtracted first.
    pub mean: bool,
}

/// The statistics of a row.
#[derive(Clone, Copy, Default)]
pub(crate) struct RowStats {
    mean: f32,
    factor: f32,
}

impl RowNorm<'_> {
    /// Columns of a row.
    pub(crate) fn cols(self) -> usize {
        let cols = self.weight.len();
        assert!(self.bias.is_none_or(|bias| bias.len() == cols), "norm of {cols} columns with another bias");
        cols
    }

    /// Writes the norm of each row of `x`, `[rows, weight.len()]`, to `out`.
    ///
    /// # Panics
    /// When shapes do not fit.
    pub fn rows(self, c: &Compute, x: &[f32], out: &mut [f32]) {
        let cols = self.cols();
        assert_eq!(x.len(), out.len(), "norms of rows of {cols}");
        parallel_rows(c, out, cols, &|first, out| {
            let x = &x[first * cols..][..out.len()];
            dispatch(c.tier, Norm { x, norm: self, out });
        });
    }

    /// Computes `x = norm(x + (y + bias))` row by row, as post-norm blocks do after each part: the same bits as
    /// [`add_bias`](crate::add_bias) to `y`, [`add`](crate::add) to `x` and [`RowNorm::rows`], in one pass over memory.
    ///
    /// # Panics
    /// When shapes do not fit.
    pub fn add_rows(self, c: &Compute, x: &mut [f32], y: &[f32], bias: Option<&[f32]>) {
        let cols = self.cols();
        assert_eq!(x.len(), y.len(), "summands in rows of {cols}");
        assert!(bias.is_none_or(|bias| bias.len() == cols), "a bias of {cols} columns");
        parallel_rows(c, x, cols, &|first, x| {
            let y = &y[first * cols..][..x.len()];
            dispatch(c.tier, AddNorm { x, y, bias, norm: self });
        });
    }

    /// The statistics of the row `x`.
    #[inline(always)]
    pub(crate) fn stats<S: Simd>(self, s: S, x: &[f32]) -> RowStats {
        let mean = if self.mean { sum(s, x) / x.len() as f32 } else { 0.0 };
        RowStats { mean, factor: factor(s, x, mean, self.eps) }
    }

    /// The norm of `x`, the values of a row from column `from` on.
    #[inline(always)]
    pub(crate) fn part<S: Simd>(self, s: S, x: &[f32], stats: RowStats, from: usize, out: &mut [f32]) {
        let weight = &self.weight[from..from + x.len()];
        for at in (0..x.len()).step_by(S::LANES) {
            let v = s.sub(partial::load(s, x, at), s.splat(stats.mean));
            let mut v = s.mul(s.mul(v, s.splat(stats.factor)), partial::load(s, weight, at));
            if let Some(bias) = self.bias {
                v = s.add(v, partial::load(s, &bias[from..from + x.len()], at));
            }
            partial::store(s, v, out, at);
        }
    }

    /// [`RowNorm::part`] of a whole row, in place.
    #[inline(always)]
    fn in_place<S: Simd>(self, s: S, x: &mut [f32]) {
        let stats = self.stats(s, x);
        for at in (0..x.len()).step_by(S::LANES) {
            let v = s.sub(partial::load(s, x, at), s.splat(stats.mean));
            let mut v = s.mul(s.mul(v, s.splat(stats.factor)), partial::load(s, self.weight, at));
            if let Some(bias) = self.bias {
                v = s.add(v, partial::load(s, bias, at));
            }
            partial::store(s, v, x, at);
        }
    }
}

/// The job of [`RowNorm::add_rows`].
struct AddNorm<'a> {
    x: &'a mut [f32],
    y: &'a [f32],
    bias: Option<&'a [f32]>,
    norm: RowNorm<'a>,
}

impl Job for AddNorm<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let cols = self.norm.weight.len();
        for (x, y) in self.x.chunks_exact_mut(cols).zip(self.y.chunks_exact(cols)) {
            for at in (0..cols).step_by(S::LANES) {
                let mut v = partial::load(s, y, at);
                if let Some(bias) = self.bias {
                    v = s.add(v, partial::load(s, bias, at));
                }
                partial::store(s, s.add(partial::load(s, x, at), v), x, at);
            }
            self.norm.in_place(s, x);
        }
    }
}

struct Norm<'a> {
    x: &'a [f32],
    norm: RowNorm<'a>,
    out: &'a mut [f32],
}

impl Job for Norm<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let cols = self.norm.weight.len();
        for (x, out) in self.x.chunks_exact(cols).zip(self.out.chunks_exact_mut(cols)) {
            self.norm.part(s, x, self.norm.stats(s, x), 0, out);
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
        in_place(s, self.x, self.weight, self.eps);
    }
}

/// [`rms_norm_in_place`] of some rows.
#[inline(always)]
pub(crate) fn in_place<S: Simd>(s: S, x: &mut [f32], weight: &[f32], eps: f32) {
    let cols = weight.len();
    for x in x.chunks_exact_mut(cols) {
        let factor = factor(s, x, 0.0, eps);
        for at in (0..cols).step_by(S::LANES) {
            let v = s.mul(partial::load(s, x, at), s.splat(factor));
            partial::store(s, s.mul(v, partial::load(s, weight, at)), x, at);
        }
    }
}

/// `1 / sqrt(mean((x - mean)²) + eps)`.
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
    s.reduce_sum(all) + rest
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
    s.reduce_sum(all) + rest
}
