//! The graph of a pipeline: its steps in an order in which they can run.

use std::collections::HashMap;
use std::sync::Arc;

use wire::error::quote;

use crate::operation::Operation;
use crate::spec::Spec;

/// Most steps of a pipeline, and tensors of a step.
pub(crate) const MAX_STEPS: usize = 64;
/// Most inputs or outputs of a pipeline or of a step.
pub(crate) const MAX_TENSORS: usize = 64;

/// An input or output of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Port {
    /// The name.
    pub name: String,
    /// What the definition says of it.
    pub spec: Spec,
}

/// What a step does.
#[derive(Debug, Clone)]
pub enum Work {
    /// A model computes. The names are the model's, in the order of the step's tensors.
    Model {
        /// The name of the model.
        model: String,
        /// The version; none is the default one.
        version: Option<u64>,
        /// The model's inputs.
        inputs: Vec<String>,
        /// The model's outputs.
        outputs: Vec<String>,
    },
    /// The tokenizer of a model reads texts.
    Tokenize {
        /// The name of the model, an encoder.
        model: String,
        /// Most tokens of a text, special tokens included; none is as many as the model takes.
        max_tokens: Option<usize>,
        /// Whether longer texts are cut, not refused.
        truncate: bool,
        /// Which of `input_ids`, `attention_mask` and `token_type_ids` the outputs are.
        outputs: Vec<String>,
    },
    /// A computation of this crate.
    Own(Arc<dyn Operation>),
}

/// A step: what it does, and with which tensors of the pipeline.
#[derive(Debug, Clone)]
pub struct Node {
    /// The step's name in messages: what it does, and to which output.
    pub name: String,
    /// The tensors that it takes.
    pub inputs: Vec<String>,
    /// The tensors that it makes.
    pub outputs: Vec<String>,
    /// What it does.
    pub work: Work,
}

/// A pipeline as it was written.
#[derive(Debug, Clone, Default)]
pub struct Definition {
    /// The inputs.
    pub inputs: Vec<Port>,
    /// The outputs.
    pub outputs: Vec<Port>,
    /// The steps, in an order in which they can run.
    pub steps: Vec<Node>,
    /// Most rows of a request; 0 if nothing is said of rows.
    pub max_batch_size: usize,
}

impl Definition {
    /// Puts the steps into an order in which they can run.
    ///
    /// # Errors
    /// In words: a tensor with two producers or none, an input that nobody takes, a cycle.
    pub(crate) fn ordered(mut self) -> Result<Definition, String> {
        self.check_counts()?;
        let producers = self.producers()?;
        for step in &self.steps {
            if let Some(name) = step.inputs.iter().find(|name| !producers.contains_key(name.as_str())) {
                return Err(format!("the step {} takes {}, which nothing makes", step.name, quote(name)));
            }
        }
        for (at, Port { name, .. }) in self.outputs.iter().enumerate() {
            if !producers.contains_key(name.as_str()) {
                return Err(format!("nothing makes the output {}", quote(name)));
            }
            if self.outputs[..at].iter().any(|other| other.name == *name) {
                return Err(format!("two outputs are called {}", quote(name)));
            }
        }
        let order = self.order(&producers)?;
        let is_used = |name: &String| {
            self.steps.iter().any(|step| step.inputs.contains(name))
                || self.outputs.iter().any(|output| output.name == *name)
        };
        if let Some(unused) = self.inputs.iter().find(|input| !is_used(&input.name)) {
            return Err(format!("no step takes the input {}", quote(&unused.name)));
        }
        let mut steps: Vec<Option<Node>> = std::mem::take(&mut self.steps).into_iter().map(Some).collect();
        self.steps = order.into_iter().filter_map(|at| steps[at].take()).collect();
        Ok(self)
    }

    fn check_counts(&self) -> Result<(), String> {
        let within = |what: &str, count: usize, most: usize| {
            if (1..=most).contains(&count) {
                return Ok(());
            }
            Err(format!("there are {count} {what}; there must be 1 to {most}"))
        };
        within("inputs", self.inputs.len(), MAX_TENSORS)?;
        within("outputs", self.outputs.len(), MAX_TENSORS)?;
        within("steps", self.steps.len(), MAX_STEPS)?;
        for step in &self.steps {
            within(&format!("inputs of the step {}", step.name), step.inputs.len(), MAX_TENSORS)?;
            within(&format!("outputs of the step {}", step.name), step.outputs.len(), MAX_TENSORS)?;
        }
        Ok(())
    }

    /// Which step makes each tensor; none is the request.
    fn producers(&self) -> Result<HashMap<&str, Option<usize>>, String> {
        let mut producers = HashMap::new();
        let of_request = self.inputs.iter().map(|input| (input.name.as_str(), None));
        let of_steps = self
            .steps
            .iter()
            .enumerate()
            .flat_map(|(at, step)| step.outputs.iter().map(move |name| (name.as_str(), Some(at))));
        for (name, producer) in of_request.chain(of_steps) {
            if name.is_empty() {
                return Err("a tensor has no name".into());
            }
            if let Some(before) = producers.insert(name, producer) {
                let who = |producer: Option<usize>| match producer {
                    None => "the request".to_owned(),
                    Some(at) => format!("the step {}", self.steps[at].name),
                };
                return Err(format!("{} is made by {} and by {}", quote(name), who(before), who(producer)));
            }
        }
        Ok(producers)
    }

    /// The steps by index, each behind those whose tensors it takes, else as they were written.
    fn order(&self, producers: &HashMap<&str, Option<usize>>) -> Result<Vec<usize>, String> {
        let before = |at: usize| {
            self.steps[at].inputs.iter().filter_map(|name| producers.get(name.as_str()).copied().flatten())
        };
        let mut order = Vec::with_capacity(self.steps.len());
        let mut is_done = vec![false; self.steps.len()];
        while order.len() < self.steps.len() {
            let next = (0..self.steps.len())
                .find(|at| !is_done[*at] && before(*at).all(|producer| is_done[producer]));
            let Some(next) = next else { return Err(self.cycle(&is_done, before)) };
            is_done[next] = true;
            order.push(next);
        }
        Ok(order)
    }

    /// Tells the steps that wait for one another.
    fn cycle<I: Iterator<Item = usize>>(&self, is_done: &[bool], before: impl Fn(usize) -> I) -> String {
        let mut path = vec![is_done.iter().position(|done| !done).unwrap_or(0)];
        loop {
            let last = path[path.len() - 1];
            // Each step that is left waits for another one.
            let Some(next) = before(last).find(|producer| !is_done[*producer]) else { break };
            if let Some(start) = path.iter().position(|step| *step == next) {
                path.push(next);
                path.drain(..start);
                break;
            }
            path.push(next);
        }
        let names: Vec<&str> = path.iter().rev().map(|step| self.steps[*step].name.as_str()).collect();
        format!("the steps wait for one another: {}", names.join(" → "))
    }

    /// The models that it needs, each once: the name, and the version if one is asked for.
    pub fn models(&self) -> Vec<(&str, Option<u64>)> {
        let mut models = Vec::new();
        for step in &self.steps {
            let model = match &step.work {
                Work::Model { model, version, .. } => (model.as_str(), *version),
                Work::Tokenize { model, .. } => (model.as_str(), None),
                Work::Own(_) => continue,
            };
            if !models.contains(&model) {
                models.push(model);
            }
        }
        models
    }
}
