//! Elementwise operations: activation functions, addition, scaling, soft caps.

use cpu::simd::{Job, Simd, dispatch};

use crate::{Compute, partial};

/// Values below which one thread computes them: handing tasks to others would take longer.
const PARALLEL_MIN_VALUES: usize = 8 << 10;

/// Calls `job(first_row, rows)` on parts of `data`, `[rows, cols]`, in parallel when it is large enough.
pub(crate) fn parallel_rows(
    c: &Compute,
    data: &mut [f32],
    cols: usize,
    job: &(dyn Fn(usize, &mut [f32]) + Sync),
) {
    if data.is_empty() {
        return;
    }
    assert!(cols > 0 && data.len().is_multiple_of(cols), "{} values in rows of {cols}", data.len());
    if data.len() < PARALLEL_MIN_VALUES {
        return job(0, data);
    }
    let rows = (data.len() / cols).div_ceil(c.pool.threads() * 4).max(1);
    c.pool.chunks_mut(data, rows * cols, &|i, part| job(i * rows, part));
}

/// An activation function, of a feed-forward or a pooler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x · sigmoid(x)`
    Silu,
    /// `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`
    GeluTanh,
    /// `x/2 · (1 + erf(x/√2))`
    Gelu,
    /// `max(x, 0)`
    Relu,
    /// `max(x, 0)²`
    Relu2,
    /// `tanh(x)`
    Tanh,
    /// `1 / (1 + e^-x)`
    Sigmoid,
    /// `y · sigmoid(1.702 y)` with `y = min(x, 7)`; what it gates is limited and moved: `max(-7, min(up, 7)) + 1`
    /// (gpt-oss).
    ClampedSwish,
}

/// The factor inside the sigmoid of [`Activation::ClampedSwish`].
pub const CLAMPED_SWISH_ALPHA: f32 = 1.702;

/// The limit of [`Activation::ClampedSwish`].
pub const CLAMPED_SWISH_LIMIT: f32 = 7.0;

/// Computes `gate = act(gate) · up`, where [`Activation::ClampedSwish`] limits and moves `up` first.
///
/// # Panics
/// When the lengths differ.
pub fn gated(c: &Compute, act: Activation, gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "gate and up");
    parallel_rows(c, gate, 1, &|first, gate| {
        let up = &up[first..][..gate.len()];
        dispatch(c.tier, Activate { act, x: gate, factor: Some(up) });
    });
}

/// Computes `x = act(x)`.
pub fn activate(c: &Compute, act: Activation, x: &mut [f32]) {
    parallel_rows(c, x, 1, &|_, x| dispatch(c.tier, Activate { act, x, factor: None }));
}

/// Computes `x += y`.
///
/// # Panics
/// When the lengths differ.
pub fn add(c: &Compute, x: &mut [f32], y: &[f32]) {
    assert_eq!(x.len(), y.len(), "summands");
    parallel_rows(c, x, 1, &|first, x| x.iter_mut().zip(&y[first..]).for_each(|(x, y)| *x += y));
}

/// Adds `bias` to each row of `x`, `[rows, bias.len()]`.
///
/// # Panics
/// When `x` is not a whole number of rows.
pub fn add_bias(c: &Compute, x: &mut [f32], bias: &[f32]) {
    parallel_rows(c, x, bias.len(), &|_, x| {
        for row in x.chunks_exact_mut(bias.len()) {
            row.iter_mut().zip(bias).for_each(|(x, b)| *x += b);
        }
    });
}

/// Takes columns `at` to `at + width` of each row of `x`, `[rows, row_len]`, as `out`, `[rows, width]`.
///
/// # Panics
/// When shapes do not fit.
pub fn take_columns(c: &Compute, x: &[f32], row_len: usize, at: usize, width: usize, out: &mut [f32]) {
    assert!(at + width <= row_len && x.len() * width == out.len() * row_len, "columns {at} of {row_len}");
    parallel_rows(c, out, width, &|first, out| {
        let rows = x[first * row_len..].chunks_exact(row_len);
        for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
            out.copy_from_slice(&row[at..at + width]);
        }
    });
}

/// Multiplies each row of `x`, `[rows, width]`, by columns `at` to `at + width` of the row of `by`, `[rows, row_len]`.
///
/// # Panics
/// When shapes do not fit.
pub fn multiply_columns(c: &Compute, x: &mut [f32], by: &[f32], row_len: usize, at: usize, width: usize) {
    assert!(at + width <= row_len && by.len() * width == x.len() * row_len, "columns {at} of {row_len}");
    parallel_rows(c, x, width, &|first, x| {
        let rows = by[first * row_len..].chunks_exact(row_len);
        for (row, x) in rows.zip(x.chunks_exact_mut(width)) {
            x.iter_mut().zip(&row[at..at + width]).for_each(|(x, by)| *x *= by);
        }
    });
}

/// Computes `x *= factor`.
pub fn scale(c: &Compute, x: &mut [f32], factor: f32) {
    parallel_rows(c, x, 1, &|_, x| x.iter_mut().for_each(|x| *x *= factor));
}

/// Computes `x = cap · tanh(x / cap)`.
pub fn soft_cap(c: &Compute, x: &mut [f32], cap: f32) {
    parallel_rows(c, x, 1, &|_, x| dispatch(c.tier, SoftCapJob { x, cap }));
}

struct Activate<'a> {
    act: Activation,
    x: &'a mut [f32],
    factor: Option<&'a [f32]>,
}

impl Job for Activate<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        activate_slice(s, self.act, None, self.factor, self.x);
    }
}

/// Computes `x = act(from) · factor`; `from` defaults to `x`, without a factor it is `act(from)`. A value's result does not depend on its
/// position.
#[inline(always)]
pub(crate) fn activate_slice<S: Simd>(
    s: S,
    act: Activation,
    from: Option<&[f32]>,
    factor: Option<&[f32]>,
    x: &mut [f32],
) {
    match act {
        Activation::Silu => map_lanes::<S, Silu>(s, 0.0, from, factor, x),
        Activation::GeluTanh => map_lanes::<S, GeluTanh>(s, 0.0, from, factor, x),
        Activation::Gelu => map_lanes::<S, Gelu>(s, 0.0, from, factor, x),
        Activation::Relu => map_lanes::<S, Relu>(s, 0.0, from, factor, x),
        Activation::Relu2 => map_lanes::<S, Relu2>(s, 0.0, from, factor, x),
        Activation::Tanh => map_lanes::<S, Tanh>(s, 0.0, from, factor, x),
        Activation::Sigmoid => map_lanes::<S, Sigmoid>(s, 0.0, from, factor, x),
        Activation::ClampedSwish => map_lanes::<S, ClampedSwish>(s, 0.0, from, factor, x),
    }
}

struct SoftCapJob<'a> {
    x: &'a mut [f32],
    cap: f32,
}

impl Job for SoftCapJob<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        map_lanes::<S, SoftCap>(s, self.cap, None, None, self.x);
    }
}

/// A function of one value; a trait, since a closure would be compiled without the tier's instructions.
trait Lanewise {
    fn at<S: Simd>(s: S, v: S::F, parameter: f32) -> S::F;

    /// The factor as it is multiplied.
    #[inline(always)]
    fn factor<S: Simd>(_: S, factor: S::F) -> S::F {
        factor
    }
}

struct Silu;
struct GeluTanh;
struct Gelu;
struct Relu;
struct Relu2;
struct Tanh;
struct Sigmoid;
struct ClampedSwish;
struct SoftCap;

impl Lanewise for Silu {
    #[inline(always)]
    fn at<S: Simd>(s: S, v: S::F, _: f32) -> S::F {
        s.div(v, s.add(s.splat(1.0), s.exp(s.sub(s.splat(0.0), v))))
    }
}

impl Lanewise for GeluTanh {
    #[inline(always)]
    fn at<S: Simd>(s: S, v: S::F, _: f32) -> S::F {
        let cube = s.mul(s.mul(v, v), v);
        let u = s.mul(s.fma(cube, s.splat(0.044_715), v), s.splat(0.797_884_6));
        s.mul(s.mul(v, s.splat(0.5)), s.add(s.splat(1.0), tanh(s, u)))
    }
}

impl Lanewise for Gelu {
    #[inline(always)]
    fn at<S: Simd>(s: S, v: S::F, _: f32) -> S::F {
        let e = erf(s, s.mul(v, s.splat(std::f32::consts::FRAC_1_SQRT_2)));
        s.mul(s.mul(v, s.splat(0.5)), s.add(s.splat(1.0), e))
    }
}

impl Lanewise for Relu {
    #[inline(always)]
    fn at<S: Simd>(s: S, v: S::F, _: f32) -> S::F {
        s.max(v, s.splat(0.0))
    }
}

impl Lanewise for Relu2 {
    #[inline(always)]
    fn at<S: Simd>(s: S, v: S::F, _: f32) -> S::F {
        let positive = s.max(v, s.splat(0.0));
        s.mul(positive, positive)
    }
}

impl Lanewise for Tanh {
    #[inline(always)]
    fn at<S: Simd>(s: S, v: S::F, _: f32) -> S::F {
        // `0 · v` keeps a NaN, as in a soft cap.
        s.fma(v, s.splat(0.0), tanh(s, v))
    }
}

impl Lanewise for Sigmoid {
    #[inline(always)]
    fn at<S: Simd>(s: S, v: S::F, _: f32) -> S::F {
        s.div(s.splat(1.0), s.add(s.splat(1.0), s.exp(s.sub(s.splat(0.0), v))))
    }
}

impl Lanewise for ClampedSwish {
    #[inline(always)]
    fn at<S: Simd>(s: S, v: S::F, _: f32) -> S::F {
        let y = s.min(v, s.splat(CLAMPED_SWISH_LIMIT));
        let e = s.exp(s.mul(y, s.splat(-CLAMPED_SWISH_ALPHA)));
        // `0 · v` keeps a NaN, as in a soft cap.
        s.fma(v, s.splat(0.0), s.div(y, s.add(s.splat(1.0), e)))
    }

    #[inline(always)]
    fn factor<S: Simd>(s: S, factor: S::F) -> S::F {
        let (least, most) = (s.splat(-CLAMPED_SWISH_LIMIT), s.splat(CLAMPED_SWISH_LIMIT));
        let limited = s.add(s.max(s.min(factor, most), least), s.splat(1.0));
        s.fma(factor, s.splat(0.0), limited)
    }
}

impl Lanewise for SoftCap {
    #[inline(always)]
    fn at<S: Simd>(s: S, v: S::F, cap: f32) -> S::F {
        let capped = s.mul(s.splat(cap), tanh(s, s.mul(v, s.splat(1.0 / cap))));
        // `0 · v` keeps a NaN, which the clamps of the exponential would turn into the cap.
        s.fma(v, s.splat(0.0), capped)
    }
}

/// Computes `x = f(from) · factor` as [`activate_slice`], a register at a time; the last, partial one is zero-padded.
#[inline(always)]
fn map_lanes<S: Simd, L: Lanewise>(
    s: S,
    parameter: f32,
    from: Option<&[f32]>,
    factor: Option<&[f32]>,
    x: &mut [f32],
) {
    for at in (0..x.len()).step_by(S::LANES) {
        let mut v = L::at(s, partial::load(s, from.unwrap_or(x), at), parameter);
        if let Some(factor) = factor {
            v = s.mul(v, L::factor(s, partial::load(s, factor, at)));
        }
        partial::store(s, v, x, at);
    }
}

/// `tanh(x) = 1 − 2 / (e^2x + 1)`
#[inline(always)]
pub(crate) fn tanh<S: Simd>(s: S, x: S::F) -> S::F {
    let e = s.exp(s.add(x, x));
    s.sub(s.splat(1.0), s.div(s.splat(2.0), s.add(e, s.splat(1.0))))
}

/// The error function: `x · P(x²) / Q(x²)` of degrees 4 and 5 for |x| ≤ 3.9, beyond which it is 1 to within 4e-8. Fitted by iteratively
/// reweighted least squares (Lawson); absolute error at most 6e-7 in `f32`.
#[inline(always)]
fn erf<S: Simd>(s: S, x: S::F) -> S::F {
    const P: [f32; 4] = [0.009_409_77, 0.069_988_17, 0.332_154_26, 1.128_377_1];
    const Q: [f32; 5] = [0.002_390_264, 0.026_357_01, 0.171_333_02, 0.627_674_4, 1.0];
    let x = s.min(s.max(x, s.splat(-3.9)), s.splat(3.9));
    let t = s.mul(x, x);
    let (mut p, mut q) = (s.splat(0.000_337_193_99), s.splat(0.000_019_542_906));
    for c in P {
        p = s.fma(p, t, s.splat(c));
    }
    for c in Q {
        q = s.fma(q, t, s.splat(c));
    }
    s.div(s.mul(x, p), q)
}
