//! Shapes: operators that move elements and compute nothing.

use super::broadcast::{Places, common, strided};
use super::numbers::{axis as axis_index, elements, integers, pick};
use crate::error::Problem;
use crate::operator::{Inputs, Made, Maker, Operator, plain};
use crate::options::RunOptions;
use crate::value::{Data, Tensor, Value};

pub(super) fn identity(_: &mut Maker) -> Made {
    plain(|inputs: &Inputs, _| Ok(inputs.value(0)?.clone()))
}

pub(super) fn constant(maker: &mut Maker) -> Made {
    let attributes = &maker.attributes;
    let value = if let Some(tensor) = attributes.tensor("value")? {
        tensor
    } else if let Some(int) = attributes.int("value_int")? {
        Tensor::new(Vec::new(), Data::I64(vec![int]))?
    } else if attributes.has("value_float") {
        Tensor::new(Vec::new(), Data::F32(vec![attributes.float_or("value_float", 0.0)?]))?
    } else if let Some(text) = attributes.text("value_string")? {
        Tensor::new(Vec::new(), Data::String(vec![text]))?
    } else if attributes.has("value_ints") {
        Tensor::vector(Data::I64(attributes.ints("value_ints")?.to_vec()))
    } else if attributes.has("value_floats") {
        Tensor::vector(Data::F32(attributes.floats("value_floats")?.to_vec()))
    } else if attributes.has("value_strings") {
        Tensor::vector(Data::String(attributes.texts("value_strings")?))
    } else {
        return Err("it has no value that is supported".into());
    };
    plain(move |_: &Inputs, _| Ok(value.clone().into()))
}

/// A shape given as integers.
fn sizes(values: &[i64]) -> Result<Vec<usize>, Problem> {
    let sizes: Option<Vec<usize>> = values.iter().map(|&n| usize::try_from(n).ok()).collect();
    sizes.ok_or_else(|| Problem::Said(format!("a shape of {values:?}")))
}

pub(super) fn constant_of_shape(maker: &mut Maker) -> Made {
    let value = match maker.attributes.tensor("value")? {
        Some(value) if value.data().len() != 1 => {
            return Err(Problem::Said(format!("attribute value has {} elements", value.data().len())));
        }
        Some(value) => value,
        None => Tensor::vector(Data::F32(vec![0.0])),
    };
    plain(move |inputs: &Inputs, _| {
        let shape = sizes(&integers(inputs.tensor(0)?)?)?;
        let places = vec![0; elements(&shape)?];
        Ok(Tensor::new(shape, pick(value.data(), &places))?.into())
    })
}

pub(super) fn shape(maker: &mut Maker) -> Made {
    let (start, end) = (maker.attributes.int_or("start", 0)?, maker.attributes.int_or("end", i64::MAX)?);
    plain(move |inputs: &Inputs, _| {
        let dims = inputs.tensor(0)?.shape();
        let rank = dims.len() as i64;
        let place = |at: i64| (if at < 0 { at.saturating_add(rank) } else { at }).clamp(0, rank) as usize;
        let (start, end) = (place(start), place(end));
        let kept = dims.get(start..end).unwrap_or_default();
        Ok(Tensor::vector(Data::I64(kept.iter().map(|&n| n as i64).collect())).into())
    })
}

pub(super) fn size(_: &mut Maker) -> Made {
    plain(|inputs: &Inputs, _| {
        let count = inputs.tensor(0)?.data().len() as i64;
        Ok(Tensor::new(Vec::new(), Data::I64(vec![count]))?.into())
    })
}

pub(super) fn reshape(maker: &mut Maker) -> Made {
    // Before version 5 the shape is an attribute.
    let given = maker.attributes.has("shape").then(|| maker.attributes.ints("shape")).transpose()?;
    let given = given.map(<[i64]>::to_vec);
    let allow_zero = maker.attributes.int_or("allowzero", 0)? != 0;
    maker.attributes.ignore("consumed_inputs");
    plain(move |inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        let wanted = match &given {
            Some(shape) => shape.clone(),
            None => integers(inputs.tensor(1)?)?.into_owned(),
        };
        let wrong = || Problem::Said(format!("shape {:?} does not become {wanted:?}", x.shape()));
        let mut shape = Vec::with_capacity(wanted.len());
        for (at, &dim) in wanted.iter().enumerate() {
            shape.push(match dim {
                0 if !allow_zero => *x.shape().get(at).ok_or_else(wrong)?,
                // Worked out below.
                -1 => 1,
                _ => usize::try_from(dim).map_err(|_| wrong())?,
            });
        }
        match wanted.iter().filter(|&&dim| dim == -1).count() {
            0 => {}
            1 => {
                let known = elements(&shape).map_err(|_| wrong())?;
                let left = x.data().len().checked_div(known).unwrap_or(0);
                let open = wanted.iter().position(|&dim| dim == -1).unwrap_or_default();
                shape[open] = left;
            }
            _ => return Err(wrong()),
        }
        Ok(Tensor::new(shape, x.data().clone()).map_err(|_| wrong())?.into())
    })
}

pub(super) fn flatten(maker: &mut Maker) -> Made {
    let axis = maker.attributes.int_or("axis", 1)?;
    plain(move |inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        let rank = x.shape().len();
        let at = if axis == rank as i64 { rank } else { axis_index(axis, rank.max(1))? };
        let at = at.min(rank);
        let shape = vec![x.shape()[..at].iter().product(), x.shape()[at..].iter().product()];
        Ok(Tensor::new(shape, x.data().clone())?.into())
    })
}

/// Axes of an attribute, or since version 13 of the second input.
fn axes(given: &Option<Vec<i64>>, inputs: &Inputs) -> Result<Option<Vec<i64>>, Problem> {
    match (given, inputs.optional(1)?) {
        (Some(axes), _) => Ok(Some(axes.clone())),
        (None, Some(axes)) => Ok(Some(integers(axes)?.into_owned())),
        (None, None) => Ok(None),
    }
}

fn given_axes(maker: &Maker) -> Result<Option<Vec<i64>>, Problem> {
    let there = maker.attributes.has("axes");
    Ok(if there { Some(maker.attributes.ints("axes")?.to_vec()) } else { None })
}

pub(super) fn squeeze(maker: &mut Maker) -> Made {
    let given = given_axes(maker)?;
    plain(move |inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        let rank = x.shape().len();
        let mut gone = vec![false; rank];
        match axes(&given, inputs)? {
            Some(axes) => {
                for axis in axes {
                    let at = axis_index(axis, rank)?;
                    if x.shape()[at] != 1 {
                        return Err(Problem::Said(format!("axis {axis} of shape {:?} is not 1", x.shape())));
                    }
                    gone[at] = true;
                }
            }
            None => gone = x.shape().iter().map(|&dim| dim == 1).collect(),
        }
        let shape = x.shape().iter().zip(gone).filter(|(_, gone)| !gone).map(|(&dim, _)| dim).collect();
        Ok(Tensor::new(shape, x.data().clone())?.into())
    })
}

pub(super) fn unsqueeze(maker: &mut Maker) -> Made {
    let given = given_axes(maker)?;
    plain(move |inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        let axes = axes(&given, inputs)?.ok_or("the axes are missing")?;
        let rank = x.shape().len() + axes.len();
        let mut new = vec![false; rank];
        for axis in axes {
            let at = axis_index(axis, rank)?;
            if std::mem::replace(&mut new[at], true) {
                return Err(Problem::Said(format!("axis {axis} is there twice")));
            }
        }
        let mut old = x.shape().iter();
        let shape = new.iter().map(|&new| if new { 1 } else { old.next().copied().unwrap_or(1) }).collect();
        Ok(Tensor::new(shape, x.data().clone())?.into())
    })
}

/// Strides of a dense shape.
fn dense(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1usize; shape.len()];
    for at in (1..shape.len()).rev() {
        strides[at - 1] = strides[at] * shape[at];
    }
    strides
}

pub(super) fn transpose(maker: &mut Maker) -> Made {
    let order = maker.attributes.ints("perm")?.to_vec();
    plain(move |inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        let rank = x.shape().len();
        let order: Vec<usize> = match &*order {
            [] => (0..rank).rev().collect(),
            order => order.iter().map(|&axis| axis_index(axis, rank)).collect::<Result<_, _>>()?,
        };
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..rank) {
            return Err(Problem::Said(format!("attribute perm {order:?} for {rank} dimensions")));
        }
        let strides = dense(x.shape());
        let shape: Vec<usize> = order.iter().map(|&at| x.shape()[at]).collect();
        let steps: Vec<usize> = order.iter().map(|&at| strides[at]).collect();
        let places = strided(&shape, &steps, 0);
        Ok(Tensor::new(shape, pick(x.data(), &places))?.into())
    })
}

pub(super) fn expand(_: &mut Maker) -> Made {
    plain(|inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        let wanted = sizes(&integers(inputs.tensor(1)?)?)?;
        let shape = common(&[x.shape(), &wanted])?;
        let places = Places::new(x.shape(), &shape);
        let places: Vec<usize> = (0..elements(&shape)?).map(|i| places.at(i)).collect();
        Ok(Tensor::new(shape, pick(x.data(), &places))?.into())
    })
}

pub(super) fn concat(maker: &mut Maker) -> Made {
    // Version 1 had a default.
    let axis = maker.attributes.int_or("axis", 1)?;
    plain(move |inputs: &Inputs, _| {
        let tensors = inputs.tensors()?;
        let first = *tensors.first().ok_or("it has no inputs")?;
        let rank = first.shape().len();
        let at = axis_index(axis, rank)?;
        let mut shape = first.shape().to_vec();
        shape[at] = 0;
        for x in &tensors {
            let same = x.shape().len() == rank && (0..rank).all(|i| i == at || x.shape()[i] == shape[i]);
            if !same {
                let (a, b) = (first.shape(), x.shape());
                return Err(Problem::Said(format!("shapes {a:?} and {b:?} at axis {axis}")));
            }
            if x.data().element() != first.data().element() {
                let (a, b) = (first.data().element(), x.data().element());
                return Err(Problem::Said(format!("elements of {a} and {b}")));
            }
            shape[at] = shape[at].checked_add(x.shape()[at]).ok_or("an axis that is too long")?;
        }
        let total = elements(&shape)?;
        let outer: usize = shape[..at].iter().product();
        macro_rules! each {
            ($($kind:ident)*) => {
                match first.data() {
                    $(Data::$kind(_) => {
                        let mut out = Vec::with_capacity(total);
                        for row in 0..outer {
                            for x in &tensors {
                                if let Data::$kind(v) = x.data() {
                                    let width = v.len() / outer;
                                    out.extend_from_slice(&v[row * width..][..width]);
                                }
                            }
                        }
                        Data::$kind(out)
                    })*
                }
            };
        }
        Ok(Tensor::new(shape, each!(F32 F64 F16 Bf16 I8 I16 I32 I64 U8 U16 U32 U64 Bool String))?.into())
    })
}

struct Split {
    axis: i64,
    sizes: Vec<i64>,
    outputs: usize,
}

pub(super) fn split(maker: &mut Maker) -> Made {
    maker.attributes.ignore("num_outputs");
    let axis = maker.attributes.int_or("axis", 0)?;
    let sizes = maker.attributes.ints("split")?.to_vec();
    Ok(Box::new(Split { axis, sizes, outputs: maker.outputs }))
}

impl Operator for Split {
    fn run(&self, inputs: &Inputs, _: &RunOptions) -> Result<Vec<Value>, Problem> {
        let x = inputs.tensor(0)?;
        let at = axis_index(self.axis, x.shape().len())?;
        let dim = x.shape()[at];
        let given = match inputs.optional(1)? {
            Some(sizes) => integers(sizes)?.into_owned(),
            None => self.sizes.clone(),
        };
        let parts = if given.is_empty() {
            // Equal parts, of which the last may be smaller.
            let part = dim.div_ceil(self.outputs.max(1));
            (0..self.outputs).map(|i| part.min(dim.saturating_sub(i * part))).collect()
        } else {
            sizes(&given)?
        };
        if parts.iter().try_fold(0usize, |sum, &n| sum.checked_add(n)) != Some(dim) {
            return Err(Problem::Said(format!("parts of {parts:?} of an axis of {dim}")));
        }
        let strides = dense(x.shape());
        let mut start = 0;
        let mut out = Vec::with_capacity(parts.len());
        for part in parts {
            let mut shape = x.shape().to_vec();
            shape[at] = part;
            let places = strided(&shape, &strides, start * strides[at]);
            out.push(Tensor::new(shape, pick(x.data(), &places))?.into());
            start += part;
        }
        Ok(out)
    }
}

/// A range of an axis, as `Slice` asks for it: first place, number of places, step.
fn range(dim: usize, start: i64, end: i64, step: i64) -> Result<(usize, usize, i64), Problem> {
    if step == 0 || step == i64::MIN {
        return Err(Problem::Said(format!("a step of {step}")));
    }
    let length = dim as i64;
    let from_end = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    // Before a negative step's end, -1 is the place before the first.
    let start = from_end(start).clamp(if step > 0 { 0 } else { -1 }, high);
    let end = from_end(end).clamp(low, high);
    let distance = if step > 0 { end - start } else { start - end };
    let count = if distance <= 0 { 0 } else { (distance - 1) / step.abs() + 1 };
    Ok((start.max(0) as usize, count as usize, step))
}

pub(super) fn slice(maker: &mut Maker) -> Made {
    // Before version 10 these are attributes.
    let old = maker.attributes.has("starts");
    let starts = maker.attributes.ints("starts")?.to_vec();
    let ends = maker.attributes.ints("ends")?.to_vec();
    let given_axes = maker.attributes.ints("axes")?.to_vec();
    plain(move |inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        let list = |i: usize| -> Result<Vec<i64>, Problem> {
            Ok(match inputs.optional(i)? {
                Some(x) => integers(x)?.into_owned(),
                None => Vec::new(),
            })
        };
        let (starts, ends, axes, steps) = if old {
            (starts.clone(), ends.clone(), given_axes.clone(), Vec::new())
        } else {
            (list(1)?, list(2)?, list(3)?, list(4)?)
        };
        let fits = |list: &[i64]| list.is_empty() || list.len() == starts.len();
        if starts.len() != ends.len() || !fits(&axes) || !fits(&steps) {
            return Err("starts, ends, axes and steps are not of one length".into());
        }
        let strides = dense(x.shape());
        let mut shape = x.shape().to_vec();
        // Places of each dimension.
        let mut dims: Vec<(usize, i64)> = vec![(0, 1); shape.len()];
        for (i, (&start, &end)) in starts.iter().zip(&ends).enumerate() {
            let axis = axes.get(i).copied().unwrap_or(i as i64);
            let at = axis_index(axis, shape.len())?;
            let step = steps.get(i).copied().unwrap_or(1);
            let (first, count, step) = range(x.shape()[at], start, end, step)?;
            shape[at] = count;
            dims[at] = (first, step);
        }
        let mut places = vec![0usize];
        if elements(&shape)? == 0 {
            places.clear();
        } else {
            for ((&count, &(first, step)), stride) in shape.iter().zip(&dims).zip(&strides) {
                let at = |i: usize| (first as i64 + i as i64 * step) as usize * stride;
                places = places.iter().flat_map(|base| (0..count).map(move |i| base + at(i))).collect();
            }
        }
        Ok(Tensor::new(shape, pick(x.data(), &places))?.into())
    })
}

/// An index along an axis; negative ones count from the end.
fn index(at: i64, dim: usize) -> Result<usize, Problem> {
    let from_end = if at < 0 { at.saturating_add(dim as i64) } else { at };
    let found = usize::try_from(from_end).ok().filter(|&index| index < dim);
    found.ok_or_else(|| Problem::Said(format!("index {at} of an axis of {dim}")))
}

pub(super) fn gather(maker: &mut Maker) -> Made {
    let axis = maker.attributes.int_or("axis", 0)?;
    plain(move |inputs: &Inputs, _| {
        let (x, indices) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let at = axis_index(axis, x.shape().len())?;
        let dim = x.shape()[at];
        let chosen: Vec<usize> =
            integers(indices)?.iter().map(|&i| index(i, dim)).collect::<Result<_, _>>()?;
        let outer: usize = x.shape()[..at].iter().product();
        let inner: usize = x.shape()[at + 1..].iter().product();
        let shape = [&x.shape()[..at], indices.shape(), &x.shape()[at + 1..]].concat();
        let mut places = Vec::with_capacity(elements(&shape)?);
        for row in 0..outer {
            for &chosen in &chosen {
                let start = (row * dim + chosen) * inner;
                places.extend(start..start + inner);
            }
        }
        Ok(Tensor::new(shape, pick(x.data(), &places))?.into())
    })
}

pub(super) fn gather_elements(maker: &mut Maker) -> Made {
    let axis = maker.attributes.int_or("axis", 0)?;
    plain(move |inputs: &Inputs, _| {
        let (x, indices) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let rank = x.shape().len();
        let at = axis_index(axis, rank)?;
        let shape = indices.shape();
        let inside = shape.len() == rank && (0..rank).all(|i| i == at || shape[i] <= x.shape()[i]);
        if !inside {
            return Err(Problem::Said(format!("indices of shape {shape:?} into {:?}", x.shape())));
        }
        let strides = dense(x.shape());
        let mut steps = strides.clone();
        steps[at] = 0;
        let mut places = strided(shape, &steps, 0);
        for (place, &chosen) in places.iter_mut().zip(&*integers(indices)?) {
            *place += index(chosen, x.shape()[at])? * strides[at];
        }
        Ok(Tensor::new(shape.to_vec(), pick(x.data(), &places))?.into())
    })
}
