//! `pool`: one vector of the vectors of tokens; `normalize`: vectors of length 1.

use std::sync::Arc;

use serde::Deserialize;
use toml::Table;
use wire::oip::{Datatype, Tensor};

use super::table::{node, one_to_one, options, tensors};
use crate::definition::{Node, Work};
use crate::files::Files;
use crate::operation::Operation;
use crate::spec::Spec;
use crate::values::{FLOATS, cast, numbers, same_shape, width};

/// Length below which a vector is taken as 0, as in PyTorch's `normalize`.
const SHORTEST: f64 = 1e-12;

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Pooling {
    Mean,
    Max,
    Cls,
    Last,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    pooling: Pooling,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoOptions {}

#[derive(Debug)]
struct Pool(Pooling);

#[derive(Debug)]
struct Normalize;

/// The inputs are the vectors `[n, s, d]` and, if there is one, the attention mask `[n, s]`.
pub(super) fn read(mut table: Table, _: &Files<'_>) -> Result<Node, String> {
    let (inputs, outputs) = (tensors(&mut table, "input")?, tensors(&mut table, "output")?);
    if !(1..=2).contains(&inputs.len()) || outputs.len() != 1 {
        return Err("it has the inputs vectors and, if there is one, attention mask, and one output".into());
    }
    let Options { pooling } = options(table)?;
    Ok(node("pool", inputs, outputs, Work::Own(Arc::new(Pool(pooling)))))
}

pub(super) fn normalize(table: Table, _: &Files<'_>) -> Result<Node, String> {
    one_to_one(table, "normalize", |table| {
        options::<NoOptions>(table).map(|_| Arc::new(Normalize) as Arc<dyn Operation>)
    })
}

impl Operation for Pool {
    fn check(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        inputs[0].one_of(&FLOATS).map_err(|why| format!("its first input {why}"))?;
        let shape = match inputs[0].shape.as_deref() {
            None => vec![-1, -1],
            Some([rows, _, width]) => vec![*rows, *width],
            Some(shape) => return Err(format!("its first input has {} dimensions, not 3", shape.len())),
        };
        if let Some(rank) = inputs.get(1).and_then(Spec::rank)
            && rank != 2
        {
            return Err(format!("the attention mask has {rank} dimensions, not 2"));
        }
        Ok(vec![Spec::new(Datatype::Fp32, shape)])
    }

    fn run(&self, inputs: &[&Tensor], _: &(dyn Fn() -> bool + Sync)) -> Result<Vec<Tensor>, String> {
        let [rows, length, width] = inputs[0].shape[..] else {
            return Err(format!("{} must have 3 dimensions", inputs[0].described()));
        };
        let values = numbers(inputs[0])?;
        let mask = match inputs.get(1) {
            None => vec![1.0; rows * length],
            Some(mask) if mask.shape == [rows, length] => numbers(mask)?,
            Some(mask) => {
                return Err(format!(
                    "the attention mask {} must have the shape [{rows},{length}]",
                    mask.described()
                ));
            }
        };
        let mut out = Vec::with_capacity(rows * width);
        for row in 0..rows {
            let vector = |at: usize| &values[(row * length + at) * width..][..width];
            let there: Vec<usize> = (0..length).filter(|at| mask[row * length + at] != 0.0).collect();
            let (Some(first), Some(last)) = (there.first(), there.last()) else {
                return Err(format!("row {row} has no token that its attention mask leaves"));
            };
            match self.0 {
                Pooling::Cls => out.extend_from_slice(vector(*first)),
                Pooling::Last => out.extend_from_slice(vector(*last)),
                Pooling::Mean => out.extend((0..width).map(|column| {
                    there.iter().map(|at| vector(*at)[column]).sum::<f64>() / there.len() as f64
                })),
                Pooling::Max => out.extend((0..width).map(|column| {
                    there.iter().map(|at| vector(*at)[column]).fold(f64::NEG_INFINITY, f64::max)
                })),
            }
        }
        Ok(vec![cast(vec![rows, width], &out, Datatype::Fp32)?])
    }
}

impl Operation for Normalize {
    fn check(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        same_shape(inputs)
    }

    fn run(&self, inputs: &[&Tensor], _: &(dyn Fn() -> bool + Sync)) -> Result<Vec<Tensor>, String> {
        let mut values = numbers(inputs[0])?;
        for row in values.chunks_exact_mut(width(inputs[0]).max(1)) {
            let length = row.iter().map(|value| value * value).sum::<f64>().sqrt().max(SHORTEST);
            row.iter_mut().for_each(|value| *value /= length);
        }
        Ok(vec![cast(inputs[0].shape.clone(), &values, Datatype::Fp32)?])
    }
}
