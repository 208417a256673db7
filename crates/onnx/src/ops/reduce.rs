//! Reductions over axes: sums and their kin, `ArgMax`, `ArgMin`, `Softmax` and `LogSoftmax`.

use super::numbers::{axis as axis_index, integers};
use crate::error::Problem;
use crate::operator::{Inputs, Made, Maker, plain};
use crate::value::{Data, Tensor};

/// A tensor seen as `[outer, dim, inner]` at one of its axes.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    pub outer: usize,
    pub dim: usize,
    pub inner: usize,
}

impl Lines {
    pub(super) fn new(shape: &[usize], axis: usize) -> Lines {
        Lines {
            outer: shape[..axis].iter().product(),
            dim: shape[axis],
            inner: shape[axis + 1..].iter().product(),
        }
    }

    /// Calls `f` with the elements of each line.
    pub(super) fn each<T: Copy>(self, x: &[T], mut f: impl FnMut(&[T])) {
        let mut line = Vec::with_capacity(self.dim);
        for outer in 0..self.outer {
            for inner in 0..self.inner {
                line.clear();
                line.extend((0..self.dim).map(|i| x[(outer * self.dim + i) * self.inner + inner]));
                f(&line);
            }
        }
    }

    /// Writes the line numbered `at`, as `each` counts them.
    pub(super) fn write<T: Copy>(self, out: &mut [T], at: usize, line: &[T]) {
        let (outer, inner) = (at / self.inner, at % self.inner);
        for (i, &x) in line.iter().enumerate() {
            out[(outer * self.dim + i) * self.inner + inner] = x;
        }
    }
}

/// How the elements that are reduced together become one.
#[derive(Clone, Copy)]
struct Reduction {
    single: fn(&mut dyn Iterator<Item = f32>) -> f32,
    double: fn(&mut dyn Iterator<Item = f64>) -> f64,
    /// None where integers are not reduced this way.
    int: Option<fn(&mut dyn Iterator<Item = i64>) -> i64>,
}

/// The elements that are reduced together, as places in the input: those of output element `i` begin at `starts[i]`.
struct Groups {
    starts: Vec<usize>,
    offsets: Vec<usize>,
}

fn groups(shape: &[usize], reduced: &[bool]) -> Groups {
    let mut strides = vec![1usize; shape.len()];
    for at in (1..shape.len()).rev() {
        strides[at - 1] = strides[at] * shape[at];
    }
    let part = |of: bool| {
        let dims: Vec<usize> = (0..shape.len()).filter(|&i| reduced[i] == of).collect();
        let lengths: Vec<usize> = dims.iter().map(|&i| shape[i]).collect();
        let steps: Vec<usize> = dims.iter().map(|&i| strides[i]).collect();
        super::broadcast::strided(&lengths, &steps, 0)
    };
    Groups { starts: part(false), offsets: part(true) }
}

fn reduction(maker: &Maker, by: Reduction) -> Made {
    let given = maker.attributes.has("axes").then(|| maker.attributes.ints("axes")).transpose()?;
    let given = given.map(<[i64]>::to_vec);
    let keep = maker.attributes.int_or("keepdims", 1)? != 0;
    let nothing = maker.attributes.int_or("noop_with_empty_axes", 0)? != 0;
    plain(move |inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        // Since versions 13 and 18 the axes are an input.
        let axes: Vec<i64> = match (&given, inputs.optional(1)?) {
            (Some(axes), _) => axes.clone(),
            (None, Some(axes)) => integers(axes)?.into_owned(),
            (None, None) => Vec::new(),
        };
        if axes.is_empty() && nothing {
            return Ok(x.clone().into());
        }
        let rank = x.shape().len();
        let mut reduced = vec![axes.is_empty(); rank];
        for axis in axes {
            reduced[axis_index(axis, rank)?] = true;
        }
        let groups = groups(x.shape(), &reduced);
        macro_rules! each {
            ($v:expr, $f:expr) => {
                groups.starts.iter().map(|s| $f(&mut groups.offsets.iter().map(|o| $v[s + o]))).collect()
            };
        }
        let data = match (x.data(), by.int) {
            (Data::F32(v), _) => Data::F32(each!(v, by.single)),
            (Data::F64(v), _) => Data::F64(each!(v, by.double)),
            (Data::I64(v), Some(int)) => Data::I64(each!(v, int)),
            (Data::I32(v), Some(int)) => {
                let one = |s: &usize| int(&mut groups.offsets.iter().map(|o| i64::from(v[s + o]))) as i32;
                Data::I32(groups.starts.iter().map(one).collect())
            }
            (other, _) => {
                return Err(Problem::Said(format!("elements of {} are not supported", other.element())));
            }
        };
        let kept = x.shape().iter().zip(&reduced);
        let shape = match keep {
            true => kept.map(|(&dim, &reduced)| if reduced { 1 } else { dim }).collect(),
            false => kept.filter(|(_, reduced)| !**reduced).map(|(&dim, _)| dim).collect(),
        };
        Ok(Tensor::new(shape, data)?.into())
    })
}

/// The highest of numbers; NaN if there is one.
macro_rules! extreme {
    ($t:ident, $start:expr, $better:tt) => {
        |v: &mut dyn Iterator<Item = $t>| v.fold($start, |best: $t, x| if x.is_nan() || x $better best { x } else { best })
    };
}

pub(super) fn sum(maker: &mut Maker) -> Made {
    let int = |v: &mut dyn Iterator<Item = i64>| v.fold(0i64, i64::wrapping_add);
    reduction(maker, Reduction { single: |v| v.sum(), double: |v| v.sum(), int: Some(int) })
}

pub(super) fn mean(maker: &mut Maker) -> Made {
    fn single(v: &mut dyn Iterator<Item = f32>) -> f32 {
        let (sum, count) = v.fold((0.0, 0usize), |(sum, count), x| (sum + x, count + 1));
        sum / count as f32
    }
    fn double(v: &mut dyn Iterator<Item = f64>) -> f64 {
        let (sum, count) = v.fold((0.0, 0usize), |(sum, count), x| (sum + x, count + 1));
        sum / count as f64
    }
    reduction(maker, Reduction { single, double, int: None })
}

pub(super) fn max(maker: &mut Maker) -> Made {
    let int = |v: &mut dyn Iterator<Item = i64>| v.fold(i64::MIN, i64::max);
    let (single, double) = (extreme!(f32, f32::NEG_INFINITY, >), extreme!(f64, f64::NEG_INFINITY, >));
    reduction(maker, Reduction { single, double, int: Some(int) })
}

pub(super) fn min(maker: &mut Maker) -> Made {
    let int = |v: &mut dyn Iterator<Item = i64>| v.fold(i64::MAX, i64::min);
    let (single, double) = (extreme!(f32, f32::INFINITY, <), extreme!(f64, f64::INFINITY, <));
    reduction(maker, Reduction { single, double, int: Some(int) })
}

pub(super) fn prod(maker: &mut Maker) -> Made {
    let int = |v: &mut dyn Iterator<Item = i64>| v.fold(1i64, i64::wrapping_mul);
    reduction(maker, Reduction { single: |v| v.product(), double: |v| v.product(), int: Some(int) })
}

pub(super) fn l1(maker: &mut Maker) -> Made {
    let int = |v: &mut dyn Iterator<Item = i64>| v.fold(0i64, |sum, x| sum.wrapping_add(x.wrapping_abs()));
    let (single, double) = (
        |v: &mut dyn Iterator<Item = f32>| v.map(f32::abs).sum(),
        |v: &mut dyn Iterator<Item = f64>| v.map(f64::abs).sum(),
    );
    reduction(maker, Reduction { single, double, int: Some(int) })
}

pub(super) fn l2(maker: &mut Maker) -> Made {
    fn single(v: &mut dyn Iterator<Item = f32>) -> f32 {
        v.map(|x| x * x).sum::<f32>().sqrt()
    }
    fn double(v: &mut dyn Iterator<Item = f64>) -> f64 {
        v.map(|x| x * x).sum::<f64>().sqrt()
    }
    reduction(maker, Reduction { single, double, int: None })
}

pub(super) fn sum_square(maker: &mut Maker) -> Made {
    fn single(v: &mut dyn Iterator<Item = f32>) -> f32 {
        v.map(|x| x * x).sum()
    }
    fn double(v: &mut dyn Iterator<Item = f64>) -> f64 {
        v.map(|x| x * x).sum()
    }
    let int = |v: &mut dyn Iterator<Item = i64>| v.fold(0i64, |sum, x| sum.wrapping_add(x.wrapping_mul(x)));
    reduction(maker, Reduction { single, double, int: Some(int) })
}

pub(super) fn log_sum_exp(maker: &mut Maker) -> Made {
    fn double(v: &mut dyn Iterator<Item = f64>) -> f64 {
        let all: Vec<f64> = v.collect();
        let max = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let max = if max.is_finite() { max } else { 0.0 };
        all.iter().map(|x| (x - max).exp()).sum::<f64>().ln() + max
    }
    fn single(v: &mut dyn Iterator<Item = f32>) -> f32 {
        double(&mut v.map(f64::from)) as f32
    }
    reduction(maker, Reduction { single, double, int: None })
}

/// The place of the best element of each line, where `better(x, best)` prefers `x`.
fn arg(maker: &Maker, highest: bool) -> Made {
    let axis = maker.attributes.int_or("axis", 0)?;
    let keep = maker.attributes.int_or("keepdims", 1)? != 0;
    let last = maker.attributes.int_or("select_last_index", 0)? != 0;
    plain(move |inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        let at = axis_index(axis, x.shape().len())?;
        let lines = Lines::new(x.shape(), at);
        if lines.dim == 0 {
            return Err("the axis has no elements".into());
        }
        let mut out = Vec::with_capacity(lines.outer * lines.inner);
        fn best<T: PartialOrd + Copy>(line: &[T], highest: bool, last: bool) -> i64 {
            let mut best = 0;
            for (i, x) in line.iter().enumerate() {
                let better = if highest { *x > line[best] } else { *x < line[best] };
                if better || last && *x == line[best] {
                    best = i;
                }
            }
            best as i64
        }
        match x.data() {
            Data::F32(v) => lines.each(v, |line| out.push(best(line, highest, last))),
            Data::F64(v) => lines.each(v, |line| out.push(best(line, highest, last))),
            Data::I64(v) => lines.each(v, |line| out.push(best(line, highest, last))),
            Data::I32(v) => lines.each(v, |line| out.push(best(line, highest, last))),
            Data::I8(v) => lines.each(v, |line| out.push(best(line, highest, last))),
            Data::U8(v) => lines.each(v, |line| out.push(best(line, highest, last))),
            other => {
                return Err(Problem::Said(format!("elements of {} are not supported", other.element())));
            }
        }
        let mut shape = x.shape().to_vec();
        if keep {
            shape[at] = 1;
        } else {
            shape.remove(at);
        }
        Ok(Tensor::new(shape, Data::I64(out))?.into())
    })
}

pub(super) fn arg_max(maker: &mut Maker) -> Made {
    arg(maker, true)
}

pub(super) fn arg_min(maker: &mut Maker) -> Made {
    arg(maker, false)
}

/// An operator on lines of floats.
fn on_lines(maker: &Maker, f: fn(&mut [f64])) -> Made {
    // Before version 13 everything behind the axis is one line.
    let flat = maker.version < 13;
    let axis = maker.attributes.int_or("axis", if flat { 1 } else { -1 })?;
    plain(move |inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        let at = axis_index(axis, x.shape().len().max(1))?;
        let shape = if x.shape().is_empty() { &[1][..] } else { x.shape() };
        let lines = if flat {
            let dim = shape[at..].iter().product();
            Lines { outer: shape[..at].iter().product(), dim, inner: 1 }
        } else {
            Lines::new(shape, at)
        };
        macro_rules! each {
            ($v:expr, $t:ty) => {{
                let mut out = $v.clone();
                let mut at = 0;
                lines.each($v, |line| {
                    let mut wide: Vec<f64> = line.iter().map(|&x| f64::from(x)).collect();
                    f(&mut wide);
                    let narrow: Vec<$t> = wide.into_iter().map(|x| x as $t).collect();
                    lines.write(&mut out, at, &narrow);
                    at += 1;
                });
                out
            }};
        }
        let data = match x.data() {
            Data::F32(v) => Data::F32(each!(v, f32)),
            Data::F64(v) => Data::F64(each!(v, f64)),
            other => {
                return Err(Problem::Said(format!("elements of {} are not supported", other.element())));
            }
        };
        Ok(Tensor::new(x.shape().to_vec(), data)?.into())
    })
}

fn softmax_line(line: &mut [f64]) {
    let max = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    line.iter_mut().for_each(|x| *x = (*x - max).exp());
    let sum: f64 = line.iter().sum();
    line.iter_mut().for_each(|x| *x /= sum);
}

pub(super) fn softmax(maker: &mut Maker) -> Made {
    on_lines(maker, softmax_line)
}

pub(super) fn log_softmax(maker: &mut Maker) -> Made {
    on_lines(maker, |line| {
        let max = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum = line.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
        line.iter_mut().for_each(|x| *x -= max + sum);
    })
}
