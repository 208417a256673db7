//! `labels`: the classes of the highest scores in each row, with their scores and numbers.

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use toml::Table;
use wire::oip::{Datatype, Tensor};

use super::table::{node, options, tensors};
use crate::definition::{Node, Work};
use crate::files::Files;
use crate::operation::Operation;
use crate::spec::Spec;
use crate::values::{FLOATS, cast, numbers, width};

/// Most labels.
const MAX_LABELS: usize = 1 << 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Options {
    labels: Option<Vec<String>>,
    labels_file: Option<String>,
    top: Option<usize>,
}

#[derive(Debug)]
struct Labels {
    labels: Vec<Bytes>,
    /// Classes of a row; without it there is one, and its dimension goes.
    top: Option<usize>,
    /// How many of labels, scores and indices are wanted.
    outputs: usize,
}

/// The outputs are the labels, and behind them their scores and numbers, as far as they are named.
pub(super) fn read(mut table: Table, files: &Files<'_>) -> Result<Node, String> {
    let (inputs, outputs) = (tensors(&mut table, "input")?, tensors(&mut table, "output")?);
    if inputs.len() != 1 || outputs.len() > 3 {
        return Err("it has one input, and the outputs label, score and index, in this order".into());
    }
    let Options { labels, labels_file, top } = options(table)?;
    let labels: Vec<String> = match (labels, labels_file) {
        (Some(labels), None) => labels,
        (None, Some(file)) => files(&file)?.lines().map(|line| line.trim_end().to_owned()).collect(),
        _ => return Err("labels = [\"…\"] or labels-file = \"NAME\" must be there".into()),
    };
    if !(1..=MAX_LABELS).contains(&labels.len()) {
        return Err(format!("there are {} labels; there must be 1 to {MAX_LABELS}", labels.len()));
    }
    if top == Some(0) {
        return Err("top must be at least 1".into());
    }
    let labels = labels.into_iter().map(Bytes::from).collect();
    let operation = Labels { labels, top, outputs: outputs.len() };
    Ok(node("labels", inputs, outputs, Work::Own(Arc::new(operation))))
}

impl Operation for Labels {
    fn check(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        inputs[0].one_of(&FLOATS).map_err(|why| format!("its input {why}"))?;
        let count = self.labels.len();
        let mut shape = inputs[0].shape.clone();
        if let Some(shape) = &mut shape {
            let Some(last) = shape.pop() else { return Err("its input has no dimension".into()) };
            if last != -1 && usize::try_from(last) != Ok(count) {
                return Err(format!("its input has {last} scores in a row; there are {count} labels"));
            }
            shape.extend(self.top.map(|top| i64::try_from(top.min(count)).unwrap_or(-1)));
        }
        let of = |datatype| Spec { datatype: Some(datatype), shape: shape.clone() };
        let all = [Datatype::Bytes, Datatype::Fp32, Datatype::Int64];
        Ok(all.into_iter().take(self.outputs).map(of).collect())
    }

    fn run(&self, inputs: &[&Tensor], _: &(dyn Fn() -> bool + Sync)) -> Result<Vec<Tensor>, String> {
        let (scores, count) = (numbers(inputs[0])?, self.labels.len());
        if inputs[0].shape.is_empty() || width(inputs[0]) != count {
            return Err(format!("{} must have {count} scores in a row, a label each", inputs[0].described()));
        }
        let most = self.top.unwrap_or(1).min(count);
        let mut best = Vec::with_capacity(scores.len() / count * most);
        for row in scores.chunks_exact(count) {
            let mut order: Vec<usize> = (0..count).collect();
            order.sort_by(|a, b| row[*b].total_cmp(&row[*a]).then(a.cmp(b)));
            best.extend(order.into_iter().take(most).map(|index| (index, row[index])));
        }
        let mut shape = inputs[0].shape[..inputs[0].shape.len() - 1].to_vec();
        shape.extend(self.top.map(|_| most));
        let labels = best.iter().map(|(index, _)| self.labels[*index].clone()).collect();
        let values: Vec<f64> = best.iter().map(|(_, score)| *score).collect();
        let indices: Vec<f64> = best.iter().map(|(index, _)| *index as f64).collect();
        let mut all = vec![
            Tensor::strings("", shape.clone(), labels).map_err(|why| format!("the labels: {why}"))?,
            cast(shape.clone(), &values, Datatype::Fp32)?,
            cast(shape, &indices, Datatype::Int64)?,
        ];
        all.truncate(self.outputs);
        Ok(all)
    }
}
