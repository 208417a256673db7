//! `MatMul` and `Gemm`, for the small matrices of pipelines.

use std::ops::{Add, Mul};

use super::broadcast::{Places, common};
use super::numbers::elements;
use crate::error::Problem;
use crate::operator::{Inputs, Made, Maker, plain};
use crate::options::{Rows, RunOptions};
use crate::value::{Data, Tensor};

/// Rows that a thread takes at a time.
const ROWS: usize = 16;

/// A matrix, or its transpose: strides of rows and columns.
#[derive(Clone, Copy)]
struct View<'a, T> {
    values: &'a [T],
    row: usize,
    col: usize,
}

/// `out[m, n] += a[m, k] · b[k, n]`, over `k` in order.
fn product<T>(
    a: View<T>,
    b: View<T>,
    out: &mut [T],
    [k, n]: [usize; 2],
    run: &RunOptions,
) -> Result<(), Problem>
where
    T: Copy + Add<Output = T> + Mul<Output = T> + Send + Sync,
{
    if n == 0 {
        return Ok(());
    }
    let rows = Rows { block: ROWS, row_ns: k * n / 8 };
    run.row_blocks(out, n, rows, &|first, out| {
        for (row, out) in out.chunks_mut(n).enumerate() {
            for at in 0..k {
                let x = a.values[(first + row) * a.row + at * a.col];
                if b.col == 1 {
                    for (out, &y) in out.iter_mut().zip(&b.values[at * b.row..][..n]) {
                        *out = *out + x * y;
                    }
                } else {
                    for (col, out) in out.iter_mut().enumerate() {
                        *out = *out + x * b.values[at * b.row + col * b.col];
                    }
                }
            }
        }
    })
}

pub(super) fn matmul(_: &mut Maker) -> Made {
    plain(|inputs: &Inputs, run| {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let (mut left, mut right) = (a.shape().to_vec(), b.shape().to_vec());
        if left.is_empty() || right.is_empty() {
            return Err("a scalar has no matrix product".into());
        }
        // A vector is a row on the left and a column on the right, and that dimension leaves the result.
        let (row, column) = (left.len() == 1, right.len() == 1);
        if row {
            left.insert(0, 1);
        }
        if column {
            right.push(1);
        }
        let ([left_batch @ .., m, k], [right_batch @ .., k2, n]) = (&left[..], &right[..]) else {
            return Err("an input without dimensions".into());
        };
        if k != k2 {
            return Err(Problem::Said(format!("a product of shapes {:?} and {:?}", a.shape(), b.shape())));
        }
        let batch = common(&[left_batch, right_batch])?;
        let (first, second) = (Places::new(left_batch, &batch), Places::new(right_batch, &batch));
        let mut shape = batch.clone();
        shape.extend([*m, *n]);
        let total = elements(&shape)?;
        macro_rules! each {
            ($x:expr, $y:expr, $zero:expr) => {{
                let mut out = vec![$zero; total];
                for (at, out) in out.chunks_mut((m * n).max(1)).enumerate() {
                    let a = View { values: &$x[first.at(at) * m * k..][..m * k], row: *k, col: 1 };
                    let b = View { values: &$y[second.at(at) * k * n..][..k * n], row: *n, col: 1 };
                    product(a, b, out, [*k, *n], run)?;
                }
                out
            }};
        }
        let data = match (a.data(), b.data()) {
            (Data::F32(x), Data::F32(y)) => Data::F32(each!(x, y, 0.0)),
            (Data::F64(x), Data::F64(y)) => Data::F64(each!(x, y, 0.0)),
            (a, b) => {
                return Err(Problem::Said(format!("a product of {} and {}", a.element(), b.element())));
            }
        };
        let rank = shape.len();
        if column {
            shape.remove(rank - 1);
        }
        if row {
            shape.remove(rank - 2);
        }
        Ok(Tensor::new(shape, data)?.into())
    })
}

pub(super) fn gemm(maker: &mut Maker) -> Made {
    let attributes = &maker.attributes;
    let (alpha, beta) = (attributes.float_or("alpha", 1.0)?, attributes.float_or("beta", 1.0)?);
    let (flip_a, flip_b) = (attributes.int_or("transA", 0)? != 0, attributes.int_or("transB", 0)? != 0);
    attributes.ignore("broadcast");
    plain(move |inputs: &Inputs, run| {
        let (a, b, c) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.optional(2)?);
        let ([rows_a, cols_a], [rows_b, cols_b]) = (a.shape(), b.shape()) else {
            return Err("an input that is no matrix".into());
        };
        let (m, k) = if flip_a { (*cols_a, *rows_a) } else { (*rows_a, *cols_a) };
        let (k2, n) = if flip_b { (*cols_b, *rows_b) } else { (*rows_b, *cols_b) };
        if k != k2 {
            return Err(Problem::Said(format!("a product of shapes {:?} and {:?}", a.shape(), b.shape())));
        }
        let shape = vec![m, n];
        let total = elements(&shape)?;
        let added = match c {
            Some(c) if common(&[c.shape(), &shape])? != shape => {
                return Err(Problem::Said(format!("an input C of shape {:?} for {shape:?}", c.shape())));
            }
            Some(c) => Some((c, Places::new(c.shape(), &shape))),
            None => None,
        };
        macro_rules! each {
            ($kind:ident, $t:ty, $x:expr, $y:expr) => {{
                let strides = |flip: bool, cols: usize| if flip { (1, cols) } else { (cols, 1) };
                let ((row, col), (row_b, col_b)) = (strides(flip_a, *cols_a), strides(flip_b, *cols_b));
                let mut out: Vec<$t> = vec![0.0; total];
                let a = View { values: &$x[..], row, col };
                product(a, View { values: &$y[..], row: row_b, col: col_b }, &mut out, [k, n], run)?;
                let (alpha, beta) = (<$t>::from(alpha), <$t>::from(beta));
                match &added {
                    Some((c, places)) => {
                        let Data::$kind(c) = c.data() else {
                            return Err("an input C of another type".into());
                        };
                        for (i, out) in out.iter_mut().enumerate() {
                            *out = alpha * *out + beta * c[places.at(i)];
                        }
                    }
                    None => out.iter_mut().for_each(|x| *x *= alpha),
                }
                Data::$kind(out)
            }};
        }
        let data = match (a.data(), b.data()) {
            (Data::F32(x), Data::F32(y)) => each!(F32, f32, x, y),
            (Data::F64(x), Data::F64(y)) => each!(F64, f64, x, y),
            (a, b) => {
                return Err(Problem::Said(format!("a product of {} and {}", a.element(), b.element())));
            }
        };
        Ok(Tensor::new(shape, data)?.into())
    })
}
