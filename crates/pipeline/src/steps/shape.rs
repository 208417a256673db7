//! `cast`, `reshape` and `concat`: other datatypes and shapes of the same elements.

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use toml::Table;
use wire::oip::{Datatype, Tensor, TensorData, elements, show_shape};

use super::table::{node, one_to_one, options, tensors};
use crate::definition::{Node, Work};
use crate::files::Files;
use crate::operation::Operation;
use crate::spec::Spec;
use crate::values;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CastOptions {
    datatype: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReshapeOptions {
    shape: Vec<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConcatOptions {
    axis: usize,
}

#[derive(Debug)]
struct Cast(Datatype);

/// The dimensions: 0 stays as it is, −1 is worked out.
#[derive(Debug)]
struct Reshape(Vec<i64>);

#[derive(Debug)]
struct Concat {
    axis: usize,
}

pub(super) fn cast(table: Table, _: &Files<'_>) -> Result<Node, String> {
    one_to_one(table, "cast", |table| {
        let CastOptions { datatype } = options(table)?;
        match Datatype::parse(&datatype).filter(|datatype| *datatype != Datatype::Bytes) {
            Some(datatype) => Ok(Arc::new(Cast(datatype)) as Arc<dyn Operation>),
            None => Err(format!("the datatype is {datatype:?}; it must be one of numbers, such as FP32")),
        }
    })
}

pub(super) fn reshape(table: Table, _: &Files<'_>) -> Result<Node, String> {
    one_to_one(table, "reshape", |table| {
        let ReshapeOptions { shape } = options(table)?;
        let open = shape.iter().filter(|dim| **dim == -1).count();
        if open > 1 || shape.iter().any(|dim| *dim < -1) || shape.len() > wire::limits::TENSOR_RANK {
            let message = "a shape has lengths, 0 for those that stay, and at most one -1";
            return Err(format!("the shape is {}; {message}", show_shape(&shape)));
        }
        Ok(Arc::new(Reshape(shape)) as Arc<dyn Operation>)
    })
}

pub(super) fn concat(mut table: Table, _: &Files<'_>) -> Result<Node, String> {
    let (inputs, outputs) = (tensors(&mut table, "input")?, tensors(&mut table, "output")?);
    if inputs.len() < 2 || outputs.len() != 1 {
        return Err("it has at least two inputs, and one output".into());
    }
    let ConcatOptions { axis } = options(table)?;
    Ok(node("concat", inputs, outputs, Work::Own(Arc::new(Concat { axis }))))
}

impl Operation for Cast {
    fn check(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        if inputs[0].datatype == Some(Datatype::Bytes) {
            return Err("its input is BYTES; only numbers are cast".into());
        }
        Ok(vec![Spec { datatype: Some(self.0), shape: inputs[0].shape.clone() }])
    }

    fn run(&self, inputs: &[&Tensor], _: &(dyn Fn() -> bool + Sync)) -> Result<Vec<Tensor>, String> {
        let numbers = values::numbers(inputs[0])?;
        Ok(vec![values::cast(inputs[0].shape.clone(), &numbers, self.0)?])
    }
}

impl Operation for Reshape {
    fn check(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        let known = |at: usize| inputs[0].shape.as_ref().map_or(Some(-1), |shape| shape.get(at).copied());
        let dim = |(at, dim): (usize, &i64)| match dim {
            0 => known(at).ok_or_else(|| format!("dimension {at} of its input is not there")),
            dim => Ok(*dim),
        };
        let shape: Vec<i64> = self.0.iter().enumerate().map(dim).collect::<Result<_, _>>()?;
        Ok(vec![Spec { datatype: inputs[0].datatype, shape: Some(shape) }])
    }

    fn run(&self, inputs: &[&Tensor], _: &(dyn Fn() -> bool + Sync)) -> Result<Vec<Tensor>, String> {
        let input = inputs[0];
        let cannot = || format!("{} cannot take the shape {}", input.described(), show_shape(&self.0));
        let dim = |(at, dim): (usize, &i64)| match dim {
            0 => input.shape.get(at).copied(),
            -1 => Some(1),
            dim => usize::try_from(*dim).ok(),
        };
        let mut shape: Vec<usize> =
            self.0.iter().enumerate().map(dim).collect::<Option<_>>().ok_or_else(cannot)?;
        if let Some(open) = self.0.iter().position(|dim| *dim == -1) {
            let others = elements(&shape).map_err(|_| cannot())?;
            shape[open] = input.elements().checked_div(others).ok_or_else(cannot)?;
        }
        if elements(&shape) != Ok(input.elements()) {
            return Err(cannot());
        }
        Ok(vec![Tensor { name: String::new(), datatype: input.datatype, shape, data: input.data.clone() }])
    }
}

impl Operation for Concat {
    fn check(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        let mut all = inputs[0].clone();
        let mut sum = Some(0);
        for input in inputs {
            let mut other = input.clone();
            if let Some(shape) = &mut other.shape {
                let Some(length) = shape.get_mut(self.axis) else {
                    return Err(format!("its input {} has no axis {}", show_shape(shape), self.axis));
                };
                sum = sum.filter(|_| *length >= 0).map(|sum: i64| sum.saturating_add(*length));
                *length = -1;
            } else {
                sum = None;
            }
            if let Some(length) = all.shape.as_mut().and_then(|shape| shape.get_mut(self.axis)) {
                *length = -1;
            }
            all = all.and(&other).map_err(|why| format!("one of its inputs {why}"))?;
        }
        if let (Some(shape), Some(sum)) = (&mut all.shape, sum) {
            shape[self.axis] = sum;
        }
        Ok(vec![all])
    }

    fn run(&self, inputs: &[&Tensor], _: &(dyn Fn() -> bool + Sync)) -> Result<Vec<Tensor>, String> {
        let mut shape = inputs[0].shape.clone();
        let same = |input: &&Tensor| {
            let others = |(at, (one, other)): (usize, (&usize, &usize))| at == self.axis || one == other;
            input.datatype == inputs[0].datatype
                && input.shape.len() == shape.len()
                && input.shape.iter().zip(&shape).enumerate().all(others)
        };
        if self.axis >= shape.len() || !inputs.iter().all(same) {
            let shapes: Vec<String> = inputs.iter().map(|input| input.described()).collect();
            return Err(format!("{} do not go together along axis {}", shapes.join(", "), self.axis));
        }
        let lengths = inputs.iter().map(|input| input.shape[self.axis]);
        shape[self.axis] = lengths.fold(0, usize::saturating_add);
        elements(&shape).map_err(|why| format!("together they have a shape that {why}"))?;
        let outer: usize = shape[..self.axis].iter().product();
        let datatype = inputs[0].datatype;
        // The elements of an input in one run of the axis.
        let run = |input: &Tensor| input.elements().checked_div(outer).unwrap_or(0);
        let tensor = match datatype.size() {
            None => {
                let mut strings: Vec<Bytes> = Vec::new();
                for (at, input) in (0..outer).flat_map(|at| inputs.iter().map(move |input| (at, input))) {
                    if let TensorData::Strings(all) = &input.data {
                        strings.extend_from_slice(&all[at * run(input)..(at + 1) * run(input)]);
                    }
                }
                Tensor::strings("", shape, strings)
            }
            Some(size) => {
                let mut raw: Vec<u8> = Vec::new();
                for (at, input) in (0..outer).flat_map(|at| inputs.iter().map(move |input| (at, input))) {
                    if let TensorData::Raw(all) = &input.data {
                        raw.extend_from_slice(&all[at * run(input) * size..(at + 1) * run(input) * size]);
                    }
                }
                Tensor::raw("", datatype, shape, raw.into())
            }
        };
        Ok(vec![tensor.map_err(|why| format!("together they make a tensor that {why}"))?])
    }
}
