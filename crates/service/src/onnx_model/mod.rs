//! An ONNX model as a model of tensors.
//!
//! Models of our own operators (trees, linear models) are computed on the request's thread: most take microseconds, and
//! several run side by side. A network that `rten` computes holds the device for its run, so that its threads and those of
//! the engines do not share CPUs.

mod values;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use engine::{Device, Reservation};
use onnx::{Error, NeuralThreads, Options, RunOptions, Runtime, Session, ValueInfo, ValueType};
use wire::Fault;
use wire::oip::{Signature, Tensor, TensorSpec};

use crate::tensor_model::TensorModel;

/// The threads of `rten`, one set for the process: as many as the first device has that asks.
static NEURAL: OnceLock<NeuralThreads> = OnceLock::new();

/// An ONNX model that is loaded.
pub struct OnnxModel {
    name: String,
    session: Session,
    signature: Arc<Signature>,
    device: Device,
    _memory: Reservation,
}

/// Bytes of memory that loading the model at a path takes at most.
///
/// # Errors
/// In words: no sound ONNX file, or one beyond the limits.
pub fn onnx_bytes(path: &Path) -> Result<u64, String> {
    Session::bytes_needed(path, &Options::default()).map_err(|error| error.to_string())
}

impl OnnxModel {
    /// Loads the model at a path, which computes on `device` and holds `memory`; `name` is for the device's account.
    ///
    /// # Errors
    /// In words: a file that is not sound, an operator that is missing, inputs that no request can have.
    pub fn load(name: &str, path: &Path, device: Device, memory: Reservation) -> Result<OnnxModel, String> {
        let options = Options { max_bytes: memory.bytes().max(1), ..Options::default() };
        let session = Session::load(path, &options).map_err(|error| error.to_string())?;
        let signature = Arc::new(signature(&session)?);
        Ok(OnnxModel { name: name.to_owned(), session, signature, device, _memory: memory })
    }

    /// What computes it: `own operators` or `rten`.
    pub fn runtime(&self) -> &'static str {
        match self.session.runtime() {
            Runtime::Own => "own operators",
            Runtime::Rten => "rten",
        }
    }

    fn run(
        &self,
        inputs: &[(&str, &onnx::Value)],
        wanted: &[&str],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<onnx::Value>, Error> {
        match self.session.runtime() {
            Runtime::Own => {
                self.session.run(inputs, wanted, &RunOptions { stop: Some(stop), ..RunOptions::default() })
            }
            Runtime::Rten => {
                let threads = self.device.compute().pool.threads();
                let neural = NEURAL.get_or_init(|| NeuralThreads::new(threads));
                self.device.exclusive(&self.name, |_| {
                    let options = RunOptions { neural: Some(neural), stop: Some(stop), pool: None };
                    self.session.run(inputs, wanted, &options)
                })
            }
        }
    }
}

impl TensorModel for OnnxModel {
    fn signature(&self) -> Arc<Signature> {
        self.signature.clone()
    }

    fn infer(
        &self,
        inputs: Vec<Tensor>,
        outputs: &[String],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Tensor>, Fault> {
        let values = inputs.iter().map(values::read).collect::<Result<Vec<_>, _>>()?;
        let named: Vec<(&str, &onnx::Value)> =
            inputs.iter().zip(&values).map(|(tensor, value)| (tensor.name.as_str(), value)).collect();
        let all: Vec<&str> = self.signature.outputs.iter().map(|output| output.name.as_str()).collect();
        let wanted: Vec<&str> =
            if outputs.is_empty() { all } else { outputs.iter().map(String::as_str).collect() };
        let found = self.run(&named, &wanted, stop).map_err(fault)?;
        let tensor = |(name, value): (&&str, onnx::Value)| values::write(name, value);
        wanted.iter().zip(found).map(tensor).collect::<Result<_, String>>().map_err(Fault::internal)
    }
}

/// Whose fault an error is: the request's, or the model's.
fn fault(error: Error) -> Fault {
    match &error {
        Error::Input { name, .. } => Fault::field(name.clone(), error.to_string()),
        Error::Output { .. } => Fault::field("outputs", error.to_string()),
        // Nobody sees it.
        Error::Stopped => Fault::unavailable("stopped", "the run was stopped", 1),
        // Most are shapes that do not go together inside.
        Error::Node { .. } | Error::Tensor { .. } => Fault::field("inputs", error.to_string()),
        Error::File { .. }
        | Error::Format(_)
        | Error::Limit { .. }
        | Error::Graph(_)
        | Error::Unsupported(_) => Fault::internal(error.to_string()),
    }
}

fn signature(session: &Session) -> Result<Signature, String> {
    let specs = |infos: &[ValueInfo], what: &str| -> Result<Vec<TensorSpec>, String> {
        infos.iter().map(|info| spec(info).map_err(|why| format!("{what} '{}': {why}", info.name))).collect()
    };
    let mut inputs = specs(session.inputs(), "input")?;
    for (input, info) in inputs.iter_mut().zip(session.inputs()) {
        match &info.kind {
            ValueType::Tensor { shape: Some(_), .. } => input.optional = false,
            ValueType::Tensor { shape: None, .. } => {
                return Err(format!("input '{}': how many dimensions it has is not stated", info.name));
            }
            ValueType::Map { .. } | ValueType::Maps { .. } => {
                return Err(format!(
                    "input '{}' is a {}, which no request can have; export the model with a tensor in its place",
                    info.name, info.kind
                ));
            }
        }
    }
    let outputs = specs(session.outputs(), "output")?;
    Ok(Signature { inputs, outputs, platform: "onnxruntime_onnx".to_owned(), decoupled: false })
}

fn spec(info: &ValueInfo) -> Result<TensorSpec, String> {
    let any = |dim: &onnx::Dim| match dim {
        onnx::Dim::Fixed(length) => i64::try_from(*length).unwrap_or(i64::MAX),
        onnx::Dim::Named(_) | onnx::Dim::Any => -1,
    };
    let (element, shape) = match &info.kind {
        ValueType::Tensor { element, shape } => {
            (*element, shape.as_ref().map_or_else(|| vec![-1], |dims| dims.iter().map(any).collect()))
        }
        // A row of values for each map, in the order of their keys.
        ValueType::Maps { value, .. } => (*value, vec![-1, -1]),
        ValueType::Map { value, .. } => (*value, vec![-1]),
    };
    Ok(TensorSpec { name: info.name.clone(), datatype: values::datatype(element), shape, optional: false })
}

#[cfg(test)]
mod tests;
