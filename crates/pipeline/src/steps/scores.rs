//! `softmax` over the last dimension, and `sigmoid`.

use std::sync::Arc;

use serde::Deserialize;
use toml::Table;
use wire::oip::{Datatype, Tensor};

use super::table::{one_to_one, options};
use crate::definition::Node;
use crate::files::Files;
use crate::operation::Operation;
use crate::spec::Spec;
use crate::values::{cast, numbers, same_shape, width};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {}

#[derive(Debug)]
struct Softmax;

#[derive(Debug)]
struct Sigmoid;

pub(super) fn softmax(table: Table, _: &Files<'_>) -> Result<Node, String> {
    one_to_one(table, "softmax", |table| {
        options::<Options>(table).map(|_| Arc::new(Softmax) as Arc<dyn Operation>)
    })
}

pub(super) fn sigmoid(table: Table, _: &Files<'_>) -> Result<Node, String> {
    one_to_one(table, "sigmoid", |table| {
        options::<Options>(table).map(|_| Arc::new(Sigmoid) as Arc<dyn Operation>)
    })
}

impl Operation for Softmax {
    fn check(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        same_shape(inputs)
    }

    fn run(&self, inputs: &[&Tensor], _: &(dyn Fn() -> bool + Sync)) -> Result<Vec<Tensor>, String> {
        let mut values = numbers(inputs[0])?;
        for row in values.chunks_exact_mut(width(inputs[0]).max(1)) {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            // A row of −∞ has no shares; the result is NaN, as everywhere.
            row.iter_mut().for_each(|value| *value = (*value - largest).exp());
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|value| *value /= sum);
        }
        Ok(vec![cast(inputs[0].shape.clone(), &values, Datatype::Fp32)?])
    }
}

impl Operation for Sigmoid {
    fn check(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        same_shape(inputs)
    }

    fn run(&self, inputs: &[&Tensor], _: &(dyn Fn() -> bool + Sync)) -> Result<Vec<Tensor>, String> {
        let mut values = numbers(inputs[0])?;
        values.iter_mut().for_each(|value| *value = 1.0 / (1.0 + (-*value).exp()));
        Ok(vec![cast(inputs[0].shape.clone(), &values, Datatype::Fp32)?])
    }
}
