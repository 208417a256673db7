//! Pipelines: requests for tensors that several models and the steps between them answer.
//!
//! The graph, its checks and the steps that are no models are the crate `pipeline`'s. Here its parts are taken together,
//! each step runs where such work runs, and what a request holds between two steps is bounded.

mod models;
mod run;
mod tokens;

use std::collections::HashMap;
use std::sync::Arc;

use pipeline::{Plan, Work};
use wire::oip::{Signature, versioned_name};

use crate::configured::OutputLabels;

pub(crate) use models::{Models, Outcome};
pub(crate) use run::answer;

/// A pipeline that is loaded: that its tensors go together was checked.
pub struct Pipeline {
    plan: Plan,
    /// The names of its models, by which they are found, each once.
    parts: Vec<String>,
    /// Names of classes by output.
    labels: OutputLabels,
}

impl Pipeline {
    /// A pipeline of a plan, with the names of classes of its outputs.
    pub fn new(plan: Plan, labels: OutputLabels) -> Pipeline {
        let parts = part_names(&plan.definition);
        Pipeline { plan, parts, labels }
    }

    /// The tensors that requests see.
    pub fn signature(&self) -> Arc<Signature> {
        self.plan.signature.clone()
    }
}

/// The names of the models of a pipeline, by which they are found, each once.
pub fn part_names(definition: &pipeline::Definition) -> Vec<String> {
    definition.models().into_iter().map(|(model, version)| part_name(model, version)).collect()
}

/// The name that a model is found by.
pub fn part_name(model: &str, version: Option<u64>) -> String {
    version.map_or_else(|| model.to_owned(), |version| versioned_name(model, &version.to_string()))
}

/// The part of a step; none if it computes by itself.
fn part_of(work: &Work) -> Option<String> {
    match work {
        Work::Model { model, version, .. } => Some(part_name(model, *version)),
        Work::Tokenize { model, .. } => Some(model.clone()),
        Work::Own(_) => None,
    }
}

/// The tensors of a request between its steps, by name.
type Tensors = HashMap<String, wire::oip::Tensor>;
