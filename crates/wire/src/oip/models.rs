//! What is told of the server and its models: metadata, configuration, statistics, and the index of the repository.

use serde_json::{Map, Value, json};

use super::{Datatype, Parameters};
use crate::error::{Fault, quote};
use crate::fields::Fields;
use crate::{json, limits};

/// The version of models that have no versions.
pub const VERSION: &str = "1";

/// An input or output of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// The name.
    pub name: String,
    /// The datatype.
    pub datatype: Datatype,
    /// The length of each dimension; −1 is any.
    pub shape: Vec<i64>,
    /// Whether a request may leave it out.
    pub optional: bool,
}

impl TensorSpec {
    /// A tensor that requests must have, or that every answer has.
    pub fn new(name: impl Into<String>, datatype: Datatype, shape: &[i64]) -> TensorSpec {
        TensorSpec { name: name.into(), datatype, shape: shape.to_vec(), optional: false }
    }

    /// The same, which requests may leave out.
    #[must_use]
    pub fn optional(mut self) -> TensorSpec {
        self.optional = true;
        self
    }

    fn metadata(&self) -> Value {
        json!({"name": self.name, "datatype": self.datatype.name(), "shape": self.shape})
    }
}

/// The tensors that a model takes and gives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signature {
    /// The inputs.
    pub inputs: Vec<TensorSpec>,
    /// The outputs.
    pub outputs: Vec<TensorSpec>,
    /// What computes it, such as `gristmill` or `onnxruntime_onnx`.
    pub platform: String,
    /// Whether one request may have several answers (text that is streamed).
    pub decoupled: bool,
}

/// The answer of `GET /v2`.
pub fn server_metadata(version: &str) -> Value {
    json!({"name": "gristmill", "version": version, "extensions": EXTENSIONS})
}

/// The extensions of the protocol, by Triton's names.
pub const EXTENSIONS: [&str; 10] = [
    "classification",
    "sequence",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "model_configuration",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "generate",
];

/// The metadata of a model that is there in these versions.
pub fn model_metadata(name: &str, versions: &[String], signature: &Signature) -> Value {
    let of = |specs: &[TensorSpec]| specs.iter().map(TensorSpec::metadata).collect::<Vec<_>>();
    json!({
        "name": name,
        "versions": versions,
        "platform": signature.platform,
        "inputs": of(&signature.inputs),
        "outputs": of(&signature.outputs),
    })
}

/// How often something happened, and how long it took in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Duration {
    /// How often.
    pub count: u64,
    /// Nanoseconds.
    pub ns: u64,
}

impl Duration {
    fn json(self) -> Value {
        json!({"count": self.count, "ns": self.ns})
    }
}

/// What a model has done since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Milliseconds since 1970 of the last request's end; 0 if there was none.
    pub last_inference_ms: u64,
    /// Inputs that were answered: rows of a batch, prompts, texts.
    pub inference_count: u64,
    /// Requests that were computed.
    pub execution_count: u64,
    /// Requests that succeeded, from arrival to the end.
    pub success: Duration,
    /// Requests that failed.
    pub fail: Duration,
    /// Waiting before the computation.
    pub queue: Duration,
    /// The computation.
    pub compute_infer: Duration,
}

/// The statistics of models, by name and version.
pub fn statistics<'a>(models: impl IntoIterator<Item = (&'a str, &'a str, Statistics)>) -> Value {
    let model = |(name, version, of): (&str, &str, Statistics)| {
        let none = Duration::default().json();
        json!({
            "name": name,
            "version": version,
            "last_inference": of.last_inference_ms,
            "inference_count": of.inference_count,
            "execution_count": of.execution_count,
            "inference_stats": {
                "success": of.success.json(),
                "fail": of.fail.json(),
                "queue": of.queue.json(),
                "compute_input": none,
                "compute_infer": of.compute_infer.json(),
                "compute_output": none,
                "cache_hit": none,
                "cache_miss": none,
            },
            "response_stats": {},
            "batch_stats": [],
            "memory_usage": [],
        })
    };
    json!({"model_stats": models.into_iter().map(model).collect::<Vec<_>>()})
}

/// The state of a model in the index of the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelState {
    /// It is loaded and answers.
    Ready,
    /// It is not loaded, or its load failed.
    Unavailable,
    /// It is being loaded.
    Loading,
    /// It finishes what it has, and is then unloaded.
    Unloading,
}

impl ModelState {
    /// The protocol's word.
    pub fn name(self) -> &'static str {
        match self {
            ModelState::Ready => "READY",
            ModelState::Unavailable => "UNAVAILABLE",
            ModelState::Loading => "LOADING",
            ModelState::Unloading => "UNLOADING",
        }
    }
}

/// A version of a model in the index of the repository.
pub fn index_entry(name: &str, version: &str, state: ModelState, reason: &str) -> Value {
    let mut entry = Map::new();
    entry.insert("name".into(), name.into());
    entry.insert("version".into(), version.into());
    entry.insert("state".into(), state.name().into());
    if !reason.is_empty() {
        entry.insert("reason".into(), reason.into());
    }
    entry.into()
}

/// `ready` of the body of an index request: whether only models that are ready are listed.
///
/// # Errors
/// Invalid JSON, or another type.
pub fn wants_ready(body: &[u8]) -> Result<bool, Fault> {
    if body.is_empty() {
        return Ok(false);
    }
    let value = json::read(body)?;
    Ok(Fields::body(&value)?.boolean("ready")?.unwrap_or(false))
}

/// The parameters of a body of load and unload.
///
/// # Errors
/// Invalid JSON, a configuration or files for the model, which come from where the server was started.
pub fn load_parameters(body: &[u8]) -> Result<Parameters, Fault> {
    if body.is_empty() {
        return Ok(Parameters::default());
    }
    let value = json::read(body)?;
    let parameters = Parameters::read(&Fields::body(&value)?)?;
    check_load_parameters(parameters.0.iter().map(|(name, _)| name.as_str()))?;
    Ok(parameters)
}

/// Refuses parameters of a load that this server does not honour.
///
/// # Errors
/// A configuration or files.
pub fn check_load_parameters<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<(), Fault> {
    for name in names {
        if name == "config" || name.starts_with("file:") {
            let param = format!("parameters.{}", crate::fields::shown_name(name));
            let message =
                format!("{param} is not supported: models are loaded as this server was started with them");
            return Err(Fault::unsupported(param, message));
        }
    }
    Ok(())
}

/// Checks the name of a model in a path or a message.
///
/// # Errors
/// A name that is empty, too long, or has `.` or `..` between slashes, a backslash or a control character.
pub fn check_model_name(name: &str) -> Result<(), Fault> {
    let refused =
        |why: &str| Err(Fault::field("model_name", format!("the model name {} {why}", quote(name))));
    if name.len() > limits::NAME_BYTES {
        return refused(&format!("has {} bytes; at most {} are allowed", name.len(), limits::NAME_BYTES));
    }
    if name.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
        return refused("must not be empty, and must not have \"..\", \".\" or nothing between slashes");
    }
    if name.contains('\\') || name.chars().any(char::is_control) {
        return refused("must not have a backslash or a control character");
    }
    Ok(())
}

/// What stands between a model's name and its version, in paths and in the names of versions that are not the default.
const VERSIONS: &str = "/versions/";

/// The name of a version of a model, under which it is found beside the model's default version.
pub fn versioned_name(name: &str, version: &str) -> String {
    format!("{name}{VERSIONS}{version}")
}

/// The model's own name of that of a version, or of a model.
pub fn plain_name(name: &str) -> &str {
    let is_version = |version: &str| !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    match name.rsplit_once(VERSIONS) {
        Some((plain, version)) if is_version(version) => plain,
        _ => name,
    }
}

/// The fault of a version that a model does not have.
pub fn no_version(model: &str, version: &str, known: &[String]) -> Fault {
    if version.parse::<i64>().is_err() {
        let message = format!("the model version is {}; it must be a whole number", quote(version));
        return Fault::field("model_version", message);
    }
    Fault::no_version(model, version, &known.join(", "))
}
