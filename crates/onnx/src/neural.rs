//! Graphs with operators that are not computed here, run by the crate `rten`.
//!
//! `rten` knows tensors of `f32`, `i32`, `i8` and `u8`. What a model declares as `int64` or `bool` it holds as `i32`, and
//! `float16` as `f32`: values are converted at the edge, and those that do not fit are refused. A panic inside it is an
//! error of the model.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use half::f16;
use rten_tensor::prelude::*;
use rten_tensor::{Tensor as Dense, TensorView};

use crate::element::ElementType;
use crate::error::{Error, NodeLabel};
use crate::info::{ValueInfo, ValueType};
use crate::neural_threads::NeuralThreads;
use crate::options::RunOptions;
use crate::value::{Data, Tensor, Value};

/// A model in `rten`.
pub(crate) struct Neural {
    model: rten::Model,
    inputs: Vec<rten::NodeId>,
    outputs: Vec<rten::NodeId>,
    pub bytes: usize,
}

/// Bytes that `rten` holds for a parameter, at most.
const PARAMETER: usize = 4;

impl Neural {
    /// Loads a checked model; `external` are the files beside it that it names.
    pub(crate) fn load(
        bytes: &Bytes,
        external: &[(String, Bytes)],
        infos: (&[ValueInfo], &[ValueInfo]),
        labels: &[NodeLabel],
    ) -> Result<Neural, Error> {
        for info in infos.0.iter().chain(infos.1) {
            supported(info)?;
        }
        let load = || {
            let mut options = rten::ModelOptions::with_all_ops();
            options.prepack_weights(true);
            for (name, bytes) in external {
                options.external_data(name, bytes.to_vec());
            }
            options.load(bytes.to_vec())
        };
        let loaded = catch_unwind(AssertUnwindSafe(load));
        let model = match loaded {
            Ok(Ok(model)) => model,
            Ok(Err(error)) => return Err(refusal(&error, labels)),
            Err(_) => return Err(Error::Graph("the runtime `rten` panicked while it loaded it".to_owned())),
        };
        let id = |info: &ValueInfo| {
            let problem = |error| Error::Graph(format!("'{}': {error}", info.name));
            model.node_id(&info.name).map_err(problem)
        };
        let inputs = infos.0.iter().map(id).collect::<Result<_, _>>()?;
        let outputs = infos.1.iter().map(id).collect::<Result<_, _>>()?;
        // As they are, and packed for its products.
        let bytes = model.total_params().saturating_mul(2 * PARAMETER);
        Ok(Neural { model, inputs, outputs, bytes })
    }

    /// Runs the model; `wanted` are the places of outputs in the model's list.
    pub(crate) fn run(
        &self,
        inputs: &[(&ValueInfo, &Value)],
        wanted: &[(usize, &ValueInfo)],
        options: &RunOptions,
    ) -> Result<Vec<Value>, Error> {
        let mut given = Vec::with_capacity(inputs.len());
        for ((info, value), id) in inputs.iter().zip(&self.inputs) {
            let wrong = |problem| Error::Input { name: info.name.clone(), problem };
            given.push((*id, into_rten(value).map_err(wrong)?.into()));
        }
        let places: Vec<rten::NodeId> = wanted.iter().map(|(at, _)| self.outputs[*at]).collect();
        let threads = match options.neural {
            Some(threads) => threads,
            None => NeuralThreads::single(),
        };
        let settings = rten::RunOptions::default().with_thread_pool(Some(Arc::clone(&threads.0)));
        let run = || self.model.run(given, &places, Some(settings));
        let found = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => return Err(Error::Graph(error.to_string())),
            Err(_) => return Err(Error::Graph("the runtime `rten` panicked".to_owned())),
        };
        let convert = |(value, (_, info)): (rten::Value, &(usize, &ValueInfo))| {
            from_rten(value, info)
                .map_err(|problem| Error::Graph(format!("output '{}': {problem}", info.name)))
        };
        found.into_iter().zip(wanted).map(convert).collect()
    }
}

/// The error of a model that `rten` does not load; an operator that it lacks by name.
fn refusal(error: &rten::LoadError, labels: &[NodeLabel]) -> Error {
    let node = error.node().and_then(|name| labels.iter().find(|label| label.name == name));
    match (node, error.kind()) {
        (Some(node), rten::LoadErrorKind::OperatorInvalid) => {
            let text = error.to_string();
            if text.contains("not supported")
                || text.contains("unsupported")
                || text.contains("not registered")
            {
                return Error::Unsupported(vec![node.clone()]);
            }
            Error::Node { node: node.clone(), problem: text }
        }
        (Some(node), _) => Error::Node { node: node.clone(), problem: error.to_string() },
        (None, _) => Error::Graph(error.to_string()),
    }
}

/// Whether values of an input's or output's type can be handed over.
fn supported(info: &ValueInfo) -> Result<(), Error> {
    let problem = match &info.kind {
        ValueType::Tensor { element, .. } => match element {
            ElementType::F32
            | ElementType::F16
            | ElementType::I64
            | ElementType::I32
            | ElementType::I8
            | ElementType::U8
            | ElementType::Bool => return Ok(()),
            other => format!("tensors of {other} are not supported beside operators such as these"),
        },
        ValueType::Map { .. } | ValueType::Maps { .. } => "maps are not supported here".to_owned(),
    };
    Err(Error::Input { name: info.name.clone(), problem })
}

fn into_rten(value: &Value) -> Result<rten::Value, String> {
    let Value::Tensor(tensor) = value else { return Err("a map is given".to_owned()) };
    let shape = tensor.shape();
    let narrow = |&x: &i64| i32::try_from(x).map_err(|_| format!("{x} does not fit in 32 bits"));
    Ok(match tensor.data() {
        Data::F32(v) => Dense::from_data(shape, v.clone()).into(),
        Data::F16(v) => Dense::from_data(shape, v.iter().map(|x| x.to_f32()).collect::<Vec<f32>>()).into(),
        Data::I64(v) => {
            Dense::from_data(shape, v.iter().map(narrow).collect::<Result<Vec<i32>, _>>()?).into()
        }
        Data::I32(v) => Dense::from_data(shape, v.clone()).into(),
        Data::Bool(v) => {
            Dense::from_data(shape, v.iter().map(|&x| i32::from(x)).collect::<Vec<i32>>()).into()
        }
        Data::I8(v) => Dense::from_data(shape, v.clone()).into(),
        Data::U8(v) => Dense::from_data(shape, v.clone()).into(),
        other => return Err(format!("elements of {} are not supported", other.element())),
    })
}

fn from_rten(value: rten::Value, info: &ValueInfo) -> Result<Value, String> {
    let ValueType::Tensor { element, .. } = &info.kind else { return Err("it is a map".to_owned()) };
    let (shape, data) = match &value {
        rten::Value::FloatTensor(x) => (x.shape().to_vec(), Data::F32(dense(x.view()))),
        rten::Value::Int32Tensor(x) => (x.shape().to_vec(), Data::I32(dense(x.view()))),
        rten::Value::Int8Tensor(x) => (x.shape().to_vec(), Data::I8(dense(x.view()))),
        rten::Value::UInt8Tensor(x) => (x.shape().to_vec(), Data::U8(dense(x.view()))),
        _ => return Err("it is a sequence".to_owned()),
    };
    let data = match (element, data) {
        (ElementType::F16, Data::F32(v)) => Data::F16(v.into_iter().map(f16::from_f32).collect()),
        (ElementType::I64, Data::I32(v)) => Data::I64(v.into_iter().map(i64::from).collect()),
        (ElementType::Bool, Data::I32(v)) => Data::Bool(v.into_iter().map(|x| x != 0).collect()),
        (declared, data) if data.element() == *declared => data,
        (declared, data) => return Err(format!("its elements are {}, not {declared}", data.element())),
    };
    Ok(Tensor::new(shape, data).map_err(|mismatch| mismatch.to_string())?.into())
}

/// The elements, row-major.
fn dense<T: Copy>(x: TensorView<T>) -> Vec<T> {
    x.to_vec()
}
