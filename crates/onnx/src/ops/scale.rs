//! `Scaler`, `Normalizer`, `Binarizer` and `Imputer`.

use super::numbers::floats;
use crate::error::Problem;
use crate::operator::{Inputs, Made, Maker, plain};
use crate::value::{Data, Tensor, Value};

/// Columns of a tensor of one dimension (one row) or more.
fn columns(x: &Tensor) -> Result<usize, Problem> {
    match *x.shape() {
        [] => Err("an input without dimensions".into()),
        [columns] | [_, columns, ..] => Ok(columns),
    }
}

/// `values[column]`, or its single one.
fn by_column(values: &[f32], columns: usize) -> Result<impl Fn(usize) -> f32 + '_, Problem> {
    let single = values.len() == 1;
    if !single && values.len() != columns {
        let text = format!("attributes for {} features, and rows have {columns}", values.len());
        return Err(Problem::Said(text));
    }
    Ok(move |i: usize| if single { values[0] } else { values[i % columns.max(1)] })
}

pub(super) fn scaler(maker: &mut Maker) -> Made {
    let scale = maker.attributes.floats("scale")?.to_vec();
    let offset = maker.attributes.floats("offset")?.to_vec();
    if scale.is_empty() || scale.len() != offset.len() {
        let text = format!("attributes scale and offset have {} and {} entries", scale.len(), offset.len());
        return Err(Problem::Said(text));
    }
    plain(move |inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        let columns = columns(x)?;
        let (scale, offset) = (by_column(&scale, columns)?, by_column(&offset, columns)?);
        let out: Vec<f32> = match x.data() {
            Data::F64(v) => {
                let one = |(i, x): (usize, &f64)| (x - f64::from(offset(i))) * f64::from(scale(i));
                v.iter().enumerate().map(one).map(|x| x as f32).collect()
            }
            _ => floats(x)?.iter().enumerate().map(|(i, x)| (x - offset(i)) * scale(i)).collect(),
        };
        Ok(Tensor::new(x.shape().to_vec(), Data::F32(out))?.into())
    })
}

pub(super) fn normalizer(maker: &mut Maker) -> Made {
    let norm: fn(&mut [f32]) = match &*maker.attributes.text_or("norm", "MAX")? {
        "MAX" => |row| {
            let max = row.iter().fold(f32::MIN, |max, &x| max.max(x));
            divide(row, max);
        },
        "L1" => |row| {
            let sum = row.iter().map(|x| x.abs()).sum();
            divide(row, sum);
        },
        "L2" => |row| {
            let squares: f32 = row.iter().map(|x| x * x).sum();
            if squares != 0.0 {
                row.iter_mut().for_each(|x| *x = (*x * *x / squares).sqrt().copysign(*x));
            }
        },
        other => return Err(Problem::Said(format!("attribute norm is {other}, which is unknown"))),
    };
    plain(move |inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        let (_, columns) = x.matrix()?;
        let mut out = floats(x)?.into_owned();
        out.chunks_mut(columns.max(1)).for_each(norm);
        Ok(Tensor::new(x.shape().to_vec(), Data::F32(out))?.into())
    })
}

fn divide(row: &mut [f32], by: f32) {
    if by != 0.0 {
        row.iter_mut().for_each(|x| *x /= by);
    }
}

pub(super) fn binarizer(maker: &mut Maker) -> Made {
    let threshold = maker.attributes.float_or("threshold", 0.0)?;
    plain(move |inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        let data = match x.data() {
            Data::F32(v) => Data::F32(v.iter().map(|&x| f32::from(x > threshold)).collect()),
            Data::F64(v) => Data::F64(v.iter().map(|&x| f64::from(x > f64::from(threshold))).collect()),
            Data::I64(v) => Data::I64(v.iter().map(|&x| i64::from(x as f32 > threshold)).collect()),
            Data::I32(v) => Data::I32(v.iter().map(|&x| i32::from(x as f32 > threshold)).collect()),
            other => {
                return Err(Problem::Said(format!("an input of {} is not supported", other.element())));
            }
        };
        Ok(Tensor::new(x.shape().to_vec(), data)?.into())
    })
}

pub(super) fn imputer(maker: &mut Maker) -> Made {
    let floats = maker.attributes.floats("imputed_value_floats")?.to_vec();
    let replaced = maker.attributes.float_or("replaced_value_float", 0.0)?;
    let ints = maker.attributes.ints("imputed_value_int64s")?.to_vec();
    let replaced_int = maker.attributes.int_or("replaced_value_int64", 0)?;
    if floats.is_empty() == ints.is_empty() {
        return Err("one of imputed_value_floats and imputed_value_int64s is needed".into());
    }
    plain(move |inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        let columns = columns(x)?;
        let data = match x.data() {
            Data::F32(v) if !floats.is_empty() => {
                let is = |x: f32| x == replaced || x.is_nan() && replaced.is_nan();
                Data::F32(impute(v, &floats, columns, is))
            }
            Data::F64(v) if !floats.is_empty() => {
                let wide: Vec<f64> = floats.iter().map(|&x| f64::from(x)).collect();
                let is = |x: f64| x == f64::from(replaced) || x.is_nan() && replaced.is_nan();
                Data::F64(impute(v, &wide, columns, is))
            }
            Data::I64(v) if !ints.is_empty() => Data::I64(impute(v, &ints, columns, |x| x == replaced_int)),
            other => {
                let text = format!("an input of {} is not that of the imputed values", other.element());
                return Err(Problem::Said(text));
            }
        };
        let out: Value = Tensor::new(x.shape().to_vec(), data)?.into();
        Ok(out)
    })
}

/// The values, those for which `is` holds replaced by that of their column, or by the first where columns have none.
fn impute<T: Copy>(values: &[T], by: &[T], columns: usize, is: impl Fn(T) -> bool) -> Vec<T> {
    let one = |(at, &x): (usize, &T)| {
        if !is(x) {
            x
        } else if by.len() == columns {
            by[at % columns]
        } else {
            by[0]
        }
    };
    values.iter().enumerate().map(one).collect()
}
