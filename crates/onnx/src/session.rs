//! A model that can be run.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::attributes::Attributes;
use crate::error::{Error, NodeLabel, Problem};
use crate::file::{Beside, decode, map};
use crate::graph::{Graph, ML};
use crate::info::ValueInfo;
use crate::neural::Neural;
use crate::operator::{Inputs, Maker, Operator};
use crate::ops;
use crate::options::{Options, RunOptions};
use crate::proto::{GraphProto, ModelProto};
use crate::scan::scan;
use crate::stored;
use crate::value::Value;

/// A loaded model. Runs share it and may overlap.
pub struct Session {
    inputs: Vec<ValueInfo>,
    outputs: Vec<ValueInfo>,
    engine: Engine,
    bytes: usize,
}

/// What computes a model.
enum Engine {
    Own(Plan),
    Rten(Box<Neural>),
}

/// What computes a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Runtime {
    /// The operators of this crate.
    Own,
    /// The crate `rten`, for graphs with operators that this crate does not have.
    Rten,
}

/// The nodes in order, with the places of their values.
struct Plan {
    steps: Vec<Step>,
    /// Stored tensors by place.
    constants: Vec<(usize, Arc<Value>)>,
    places: usize,
    /// The place of each input and output of the model.
    inputs: Vec<usize>,
    outputs: Vec<usize>,
}

struct Step {
    label: NodeLabel,
    operator: Box<dyn Operator>,
    inputs: Vec<Option<usize>>,
    outputs: Vec<Option<usize>>,
    /// Values that no later step needs.
    last_use: Vec<usize>,
}

impl Session {
    /// Loads the model at `path`.
    ///
    /// # Errors
    /// When the file cannot be read, is no sound model, goes beyond the limits, or needs operators that are not
    /// supported.
    pub fn load(path: &Path, options: &Options) -> Result<Session, Error> {
        Session::build(map(path)?, &Beside::new(Some(path)), options)
    }

    /// Loads a model from memory, which can have no data in other files.
    ///
    /// # Errors
    /// As [`Session::load`].
    pub fn from_bytes(model: Vec<u8>, options: &Options) -> Result<Session, Error> {
        Session::build(Bytes::from(model), &Beside::new(None), options)
    }

    /// The most bytes of memory that loading the model at `path` takes, and so an upper bound of [`Session::bytes`]: what the
    /// file says decoded, and its tensors twice. The file is checked for it, and no tensor is read.
    ///
    /// # Errors
    /// As [`Session::load`], but for operators that are not supported.
    pub fn bytes_needed(path: &Path, options: &Options) -> Result<u64, Error> {
        let bytes = map(path)?;
        let decoded = scan(&bytes, options)?;
        let graph = Graph::check(&decode(bytes, options)?, &Beside::new(Some(path)), options)?;
        Ok(decoded.saturating_add(graph.tensor_bytes.saturating_mul(2)))
    }

    fn build(bytes: Bytes, beside: &Beside, options: &Options) -> Result<Session, Error> {
        let model = decode(bytes.clone(), options)?;
        let graph = Graph::check(&model, beside, options)?;
        let own = runtime(&model, &graph, options)? == Runtime::Own;
        let Some(proto) = &model.graph else { return Err(Error::Graph("the file holds none".to_owned())) };
        let (engine, held) = if own {
            let plan = Plan::new(proto, &graph, beside)?;
            let constants: usize = plan.constants.iter().map(|(_, value)| bytes_of(value)).sum();
            let operators: usize = plan.steps.iter().map(|step| step.operator.bytes()).sum();
            (Engine::Own(plan), constants + operators)
        } else {
            drop(model);
            let infos = (&graph.inputs[..], &graph.outputs[..]);
            let neural = Neural::load(&bytes, &beside.files(), infos, &graph.labels)?;
            let held = neural.bytes;
            (Engine::Rten(Box::new(neural)), held)
        };
        Ok(Session { inputs: graph.inputs, outputs: graph.outputs, engine, bytes: held })
    }

    /// What computes the model.
    #[must_use]
    pub fn runtime(&self) -> Runtime {
        match self.engine {
            Engine::Own(_) => Runtime::Own,
            Engine::Rten(_) => Runtime::Rten,
        }
    }

    /// The inputs, in the order of the file.
    #[must_use]
    pub fn inputs(&self) -> &[ValueInfo] {
        &self.inputs
    }

    /// The outputs, in the order of the file.
    #[must_use]
    pub fn outputs(&self) -> &[ValueInfo] {
        &self.outputs
    }

    /// Bytes of memory that the model holds between runs.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Computes the outputs `wanted`, in that order, from `inputs` by name.
    ///
    /// # Errors
    /// When an input is missing, unknown or of another type or shape than declared, an output is unknown, a node
    /// cannot be computed, or the run is stopped.
    pub fn run(
        &self,
        inputs: &[(&str, &Value)],
        wanted: &[&str],
        options: &RunOptions,
    ) -> Result<Vec<Value>, Error> {
        let given = self.check_inputs(inputs)?;
        let places = wanted.iter().map(|name| self.output_place(name)).collect::<Result<Vec<_>, _>>()?;
        match &self.engine {
            Engine::Own(plan) => {
                let places: Vec<usize> = places.into_iter().map(|at| plan.outputs[at]).collect();
                plan.run(&given, &places, options)
            }
            Engine::Rten(neural) => {
                if options.stopped() {
                    return Err(Error::Stopped);
                }
                let given: Vec<_> = self.inputs.iter().zip(given).collect();
                let wanted: Vec<_> = places.into_iter().map(|at| (at, &self.outputs[at])).collect();
                neural.run(&given, &wanted, options)
            }
        }
    }

    /// The value of each input, in the order of the model's.
    fn check_inputs<'a>(&self, inputs: &[(&str, &'a Value)]) -> Result<Vec<&'a Value>, Error> {
        for (at, (name, _)) in inputs.iter().enumerate() {
            let problem = if inputs[..at].iter().any(|(other, _)| other == name) {
                "it is given twice".to_owned()
            } else if self.inputs.iter().any(|info| info.name == *name) {
                continue;
            } else {
                let known: Vec<&str> = self.inputs.iter().map(|info| &*info.name).collect();
                format!("the model has no such input; its inputs are {}", known.join(", "))
            };
            return Err(Error::Input { name: (*name).to_owned(), problem });
        }
        let one = |info: &ValueInfo| match inputs.iter().find(|(name, _)| *name == info.name) {
            Some((_, value)) => info.check(value).map(|()| *value),
            None => Err(Error::Input { name: info.name.clone(), problem: "it is missing".to_owned() }),
        };
        self.inputs.iter().map(one).collect()
    }

    fn output_place(&self, name: &str) -> Result<usize, Error> {
        match self.outputs.iter().position(|info| info.name == name) {
            Some(at) => Ok(at),
            None => {
                let known = self.outputs.iter().map(|info| info.name.clone()).collect();
                Err(Error::Output { name: name.to_owned(), known })
            }
        }
    }
}

fn bytes_of(value: &Value) -> usize {
    match value {
        Value::Tensor(tensor) => tensor.data().bytes(),
        Value::Map(map) => map.values.bytes(),
        Value::Maps(maps) => maps.iter().map(|map| map.values.bytes()).sum(),
    }
}

/// What computes a graph; an error that names every operator that is not supported.
fn runtime(model: &ModelProto, graph: &Graph, options: &Options) -> Result<Runtime, Error> {
    let unknown: Vec<NodeLabel> =
        graph.labels.iter().filter(|label| ops::find(label).is_none()).cloned().collect();
    let mixed = graph.labels.iter().any(|label| label.domain == ML);
    match model.functions.first() {
        None if unknown.is_empty() => Ok(Runtime::Own),
        // `rten` has none of `ai.onnx.ml`.
        _ if (mixed || !options.neural) && !unknown.is_empty() => Err(Error::Unsupported(unknown)),
        None => Ok(Runtime::Rten),
        Some(function) => {
            let problem =
                format!("it defines the operator {} by others, which is not supported", function.name);
            Err(Error::Graph(problem))
        }
    }
}

impl Plan {
    fn new(proto: &GraphProto, graph: &Graph, beside: &Beside) -> Result<Plan, Error> {
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut constants = Vec::with_capacity(proto.initializer.len());
        for stored in &proto.initializer {
            let named = |problem| Error::Tensor { name: stored.name.clone(), problem };
            let place = places.len();
            places.insert(&stored.name, place);
            constants.push((place, Arc::new(Value::Tensor(stored::read(stored, beside).map_err(named)?))));
        }
        let mut steps = Vec::with_capacity(graph.order.len());
        for name in graph.inputs.iter().map(|info| &*info.name) {
            let place = places.len();
            places.insert(name, place);
        }
        let input_places = graph.inputs.iter().map(|info| places[&*info.name]).collect();
        for &index in &graph.order {
            let node = &proto.node[index];
            let label = graph.labels[index].clone();
            let operator = make(&label, &node.attribute, beside, node.output.len())?;
            // Every name was defined before it is used here: `Graph::check` has seen to it.
            let inputs = node.input.iter().map(|name| places.get(&**name).copied()).collect();
            let mut outputs = Vec::with_capacity(node.output.len());
            for name in &node.output {
                let place = places.len();
                let named = !name.is_empty();
                if named {
                    places.insert(name, place);
                }
                outputs.push(named.then_some(place));
            }
            steps.push(Step { label, operator, inputs, outputs, last_use: Vec::new() });
        }
        let outputs: Vec<usize> = graph.outputs.iter().map(|info| places[&*info.name]).collect();
        let places = places.len();
        let mut plan = Plan { steps, constants, places, inputs: input_places, outputs };
        plan.mark_last_uses();
        Ok(plan)
    }

    fn mark_last_uses(&mut self) {
        let mut last: Vec<Option<usize>> = vec![None; self.places];
        for (at, step) in self.steps.iter().enumerate() {
            for &place in step.inputs.iter().chain(&step.outputs).flatten() {
                last[place] = Some(at);
            }
        }
        for &place in &self.outputs {
            last[place] = None;
        }
        for (place, at) in last.into_iter().enumerate() {
            if let Some(at) = at {
                self.steps[at].last_use.push(place);
            }
        }
    }

    fn run(&self, inputs: &[&Value], wanted: &[usize], options: &RunOptions) -> Result<Vec<Value>, Error> {
        // Inputs stay the caller's; what is stored or made here is shared.
        let mut made: Vec<Option<Arc<Value>>> = vec![None; self.places];
        let mut given: Vec<Option<&Value>> = vec![None; self.places];
        for (place, value) in &self.constants {
            made[*place] = Some(Arc::clone(value));
        }
        for (&place, value) in self.inputs.iter().zip(inputs) {
            given[place] = Some(value);
        }
        for step in &self.steps {
            options.check().map_err(|problem| problem.at(&step.label))?;
            let values: Vec<Option<&Value>> = step
                .inputs
                .iter()
                .map(|place| place.and_then(|place| given[place].or(made[place].as_deref())))
                .collect();
            let results = step.operator.run(&Inputs(&values), options).map_err(|p| p.at(&step.label))?;
            if results.len() < step.outputs.iter().flatten().count() {
                let text = format!("{} outputs, and the graph takes {}", results.len(), step.outputs.len());
                return Err(Problem::Said(text).at(&step.label));
            }
            for (place, value) in step.outputs.iter().zip(results) {
                if let Some(place) = *place {
                    made[place] = Some(Arc::new(value));
                }
            }
            for &place in &step.last_use {
                made[place] = None;
            }
        }
        let mut out = Vec::with_capacity(wanted.len());
        for (at, &place) in wanted.iter().enumerate() {
            let again = wanted[at + 1..].contains(&place);
            let value = match (given[place], made[place].take()) {
                (Some(value), _) => value.clone(),
                (None, Some(value)) => {
                    if again {
                        made[place] = Some(Arc::clone(&value));
                    }
                    Arc::unwrap_or_clone(value)
                }
                (None, None) => return Err(Error::Graph("an output was not made".to_owned())),
            };
            out.push(value);
        }
        Ok(out)
    }
}

fn make(
    label: &NodeLabel,
    attributes: &[crate::proto::AttributeProto],
    beside: &Beside,
    outputs: usize,
) -> Result<Box<dyn Operator>, Error> {
    let Some(make) = ops::find(label) else { return Err(Error::Unsupported(vec![label.clone()])) };
    let attributes = Attributes::new(attributes, beside).map_err(|text| Problem::Said(text).at(label))?;
    let mut maker = Maker { attributes, version: label.version, outputs };
    let made = make(&mut maker).map_err(|problem| problem.at(label))?;
    let unread = maker.attributes.unread();
    if unread.is_empty() {
        return Ok(made);
    }
    let text =
        format!("it has attributes that version {} does not know: {}", label.version, unread.join(", "));
    Err(Problem::Said(text).at(label))
}
