//! Numbers of any type as floats.

use std::borrow::Cow;

use crate::error::Problem;
use crate::value::{Data, Tensor, count, map_data};

/// The elements as `f32`, as the operators of `ai.onnx.ml` compute with them.
pub(super) fn floats(tensor: &Tensor) -> Result<Cow<'_, [f32]>, Problem> {
    Ok(match tensor.data() {
        Data::F32(v) => Cow::Borrowed(v),
        Data::F64(v) => v.iter().map(|&x| x as f32).collect(),
        Data::I64(v) => v.iter().map(|&x| x as f32).collect(),
        Data::I32(v) => v.iter().map(|&x| x as f32).collect(),
        other => return Err(Problem::Said(format!("an input of {} is not supported", other.element()))),
    })
}

/// The elements of a tensor of integers, as shapes and axes are given.
pub(super) fn integers(tensor: &Tensor) -> Result<Cow<'_, [i64]>, Problem> {
    Ok(match tensor.data() {
        Data::I64(v) => Cow::Borrowed(v),
        Data::I32(v) => v.iter().map(|&x| i64::from(x)).collect(),
        other => {
            return Err(Problem::Said(format!("an input of {} is not one of integers", other.element())));
        }
    })
}

/// The axis as an index below `rank`; negative ones count from the end.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize, Problem> {
    let from_end = if axis < 0 { axis + rank as i64 } else { axis };
    match usize::try_from(from_end) {
        Ok(index) if index < rank => Ok(index),
        _ => Err(Problem::Said(format!("axis {axis} of a tensor of {rank} dimensions"))),
    }
}

/// The most elements of a value that a run makes: shapes are data, and may be anything.
const MAX_ELEMENTS: usize = 1 << 25;

/// The number of elements of a shape that is about to be made.
pub(super) fn elements(shape: &[usize]) -> Result<usize, Problem> {
    match count(shape) {
        Some(n) if n <= MAX_ELEMENTS => Ok(n),
        _ => {
            Err(Problem::Said(format!("an output of shape {shape:?}; the limit is {MAX_ELEMENTS} elements")))
        }
    }
}

/// The elements at `places`, in that order.
#[allow(clippy::clone_on_copy, reason = "the same words serve for numbers and texts")]
pub(super) fn pick(data: &Data, places: &[usize]) -> Data {
    map_data!(data, v => places.iter().map(|&at| v[at].clone()).collect())
}
