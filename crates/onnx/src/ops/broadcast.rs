//! Broadcasting as NumPy defines it: shapes are aligned at their last dimension, and a dimension of 1 is repeated.

use super::numbers::elements;
use crate::error::Problem;

/// The shape that all of these broadcast to.
pub(super) fn common(shapes: &[&[usize]]) -> Result<Vec<usize>, Problem> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut out = vec![1usize; rank];
    for shape in shapes {
        for (out, &dim) in out[rank - shape.len()..].iter_mut().zip(*shape) {
            if *out == 1 {
                *out = dim;
            } else if dim != 1 && dim != *out {
                return Err(Problem::Said(format!("shapes {shapes:?} do not broadcast")));
            }
        }
    }
    elements(&out)?;
    Ok(out)
}

/// How an input's elements lie in a broadcast output.
pub(super) enum Places {
    /// One after the other.
    Same,
    /// One element for all.
    Single,
    /// At these places.
    At(Vec<usize>),
}

impl Places {
    pub(super) fn new(shape: &[usize], out: &[usize]) -> Places {
        if shape == out {
            return Places::Same;
        }
        if shape.iter().all(|&dim| dim == 1) {
            return Places::Single;
        }
        // A repeated dimension has the stride 0.
        let mut strides = vec![0usize; out.len()];
        let mut stride = 1;
        for (at, &dim) in shape.iter().enumerate().rev() {
            if dim != 1 {
                strides[out.len() - shape.len() + at] = stride;
            }
            stride *= dim;
        }
        Places::At(strided(out, &strides, 0))
    }

    /// The place of output element `i`.
    #[inline]
    pub(super) fn at(&self, i: usize) -> usize {
        match self {
            Places::Same => i,
            Places::Single => 0,
            Places::At(places) => places[i],
        }
    }
}

/// The place of each element of a shape whose dimensions have these strides.
pub(super) fn strided(shape: &[usize], strides: &[usize], start: usize) -> Vec<usize> {
    let total: usize = shape.iter().product();
    let mut places = Vec::with_capacity(total);
    if total == 0 {
        return places;
    }
    places.push(start);
    // Each dimension repeats what is there, moved on by its stride.
    for (&dim, &stride) in shape.iter().zip(strides).rev() {
        let inner = places.len();
        for step in 1..dim {
            for i in 0..inner {
                places.push(places[i] + step * stride);
            }
        }
    }
    places
}
