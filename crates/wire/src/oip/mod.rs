//! The Open Inference Protocol, version 2, with the extensions of Triton: tensors in and out of models of any kind.
//!
//! The elements of tensors are JSON or binary data behind it. All lengths that a body states are checked against the
//! bytes that are there before anything is taken or allocated by them.
//!
//! Deliberately absent: tensors in shared memory, requests without JSON, state between requests.

mod config;
mod datatype;
mod elements;
mod generate;
pub mod grpc;
mod models;
mod parameters;
mod request;
mod response;
pub mod rpc;
mod tensor;

pub use config::{
    CONFIG_BYTES, Checked, ConfigError, ConfigTensor, EnsembleStep, ModelConfig, VersionPolicy, model_config,
};
pub use datatype::Datatype;
pub use generate::{GenerateRequest, TextRequest, text_request};
pub use models::{
    Duration, EXTENSIONS, ModelState, Signature, Statistics, TensorSpec, VERSION, check_load_parameters,
    check_model_name, index_entry, load_parameters, model_metadata, no_version, plain_name, server_metadata,
    statistics, versioned_name, wants_ready,
};
pub use parameters::{Parameter, Parameters};
pub use request::{InferRequest, OutputRequest};
pub use response::{
    ResponseBody, ResponseHead, as_wanted, check_output, parameters_json, selected, write_response,
};
pub use tensor::{Tensor, TensorData, elements, from_binary, push_binary, show_shape};

use serde_json::{Value, json};

use crate::Fault;

/// A fault in this protocol's shape.
pub fn fault(fault: &Fault) -> Value {
    json!({"error": fault.message})
}
