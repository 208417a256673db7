//! A definition that was checked against the models that it names.

use std::collections::HashMap;
use std::sync::Arc;

use wire::error::quote;
use wire::oip::{Datatype, Signature, TensorSpec};

use crate::definition::{Definition, Node, Port, Work};
use crate::spec::Spec;

/// Finds the tensors of a model by its name and version.
pub type Resolve<'a> = dyn Fn(&str, Option<u64>) -> Result<Arc<Signature>, String> + 'a;

/// A pipeline that can run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The pipeline.
    pub definition: Definition,
    /// The tensors that requests see.
    pub signature: Arc<Signature>,
}

impl Plan {
    /// Checks the tensors of a pipeline, in the order of its steps.
    ///
    /// # Errors
    /// In words, with the step: a model that is not there, tensors that it does not have, datatypes and shapes that do
    /// not go together.
    pub fn new(definition: Definition, resolve: &Resolve<'_>) -> Result<Plan, String> {
        let mut known: HashMap<String, Spec> = HashMap::new();
        for input in &definition.inputs {
            known.insert(input.name.clone(), input.spec.clone());
        }
        for step in &definition.steps {
            let inputs: Vec<Spec> =
                step.inputs.iter().map(|name| known.get(name).cloned().unwrap_or_default()).collect();
            let outputs =
                step.check(&inputs, resolve).map_err(|why| format!("the step {}: {why}", step.name))?;
            known.extend(step.outputs.iter().cloned().zip(outputs));
        }
        let input = |port: &Port| specified("input", port, &port.spec);
        let output = |port: &Port| {
            let made = known.get(&port.name).cloned().unwrap_or_default();
            let both =
                made.and(&port.spec).map_err(|why| format!("the output {} {why}", quote(&port.name)))?;
            specified("output", port, &both)
        };
        let inputs = definition.inputs.iter().map(input).collect::<Result<Vec<_>, _>>()?;
        let outputs = definition.outputs.iter().map(output).collect::<Result<Vec<_>, _>>()?;
        let signature = Signature { inputs, outputs, platform: "ensemble".into(), decoupled: false };
        Ok(Plan { definition, signature: Arc::new(signature) })
    }

    /// The steps that these outputs need, by index; all outputs if there are none.
    pub fn needed(&self, outputs: &[String]) -> Vec<usize> {
        let all = self.definition.outputs.iter().map(|port| &port.name);
        let mut wanted: Vec<&String> =
            if outputs.is_empty() { all.collect() } else { outputs.iter().collect() };
        let mut needed = Vec::new();
        for (at, step) in self.definition.steps.iter().enumerate().rev() {
            if step.outputs.iter().any(|name| wanted.contains(&name)) {
                needed.push(at);
                wanted.extend(&step.inputs);
            }
        }
        needed.reverse();
        needed
    }
}

fn specified(what: &str, port: &Port, spec: &Spec) -> Result<TensorSpec, String> {
    let Some(datatype) = spec.datatype else {
        return Err(format!("the datatype of the {what} {} is not known; say it", quote(&port.name)));
    };
    let shape = match (&spec.shape, what) {
        (Some(shape), _) => shape.clone(),
        (None, "input") => {
            return Err(format!("the shape of the input {} is not known; say it", quote(&port.name)));
        }
        (None, _) => vec![-1],
    };
    Ok(TensorSpec { name: port.name.clone(), datatype, shape, optional: false })
}

impl Node {
    /// What is known of the outputs.
    fn check(&self, inputs: &[Spec], resolve: &Resolve<'_>) -> Result<Vec<Spec>, String> {
        match &self.work {
            Work::Own(operation) => operation.check(inputs),
            Work::Model { model, version, inputs: names, outputs } => {
                let signature = resolve(model, *version)?;
                for ((name, spec), tensor) in names.iter().zip(inputs).zip(&self.inputs) {
                    let known = signature.inputs.iter().find(|input| input.name == *name);
                    let Some(known) = known else {
                        return Err(none("input", model, name, &signature.inputs));
                    };
                    let fits = spec.and(&Spec::of(known));
                    fits.map_err(|why| {
                        format!("{} {why}, the input {} of {model}", quote(tensor), quote(name))
                    })?;
                }
                let is_missing = |input: &&TensorSpec| !input.optional && !names.contains(&input.name);
                if let Some(missing) = signature.inputs.iter().find(is_missing) {
                    return Err(format!("the input {} of {model} is missing", quote(&missing.name)));
                }
                let output = |name: &String| {
                    let known = signature.outputs.iter().find(|output| output.name == *name);
                    known.map(open).ok_or_else(|| none("output", model, name, &signature.outputs))
                };
                outputs.iter().map(output).collect()
            }
            Work::Tokenize { model, outputs, .. } => {
                let signature = resolve(model, None)?;
                if !signature.inputs.iter().any(|input| input.name == "input_ids") {
                    return Err(format!("{model} is no encoder of texts"));
                }
                for spec in inputs {
                    spec.one_of(&[Datatype::Bytes]).map_err(|why| format!("its input {why}"))?;
                }
                Ok(outputs.iter().map(|_| Spec::new(Datatype::Int64, vec![-1, -1])).collect())
            }
        }
    }
}

/// What is known of a model's output: `[-1]` also stands for any number of dimensions.
fn open(spec: &TensorSpec) -> Spec {
    let spec = Spec::of(spec);
    if spec.shape.as_deref() == Some(&[-1]) { Spec { shape: None, ..spec } } else { spec }
}

fn none(what: &str, model: &str, name: &str, known: &[TensorSpec]) -> String {
    let known: Vec<&str> = known.iter().map(|spec| spec.name.as_str()).collect();
    format!("{model} has no {what} {}; its {what}s are: {}", quote(name), known.join(", "))
}
