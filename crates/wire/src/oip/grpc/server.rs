//! Made of `crates/wire/proto/inference.proto` by `tools/fixtures/oip_messages.py`.

use std::collections::BTreeMap;

/// Whether the server is alive.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ServerLiveRequest {}

/// Whether the server is alive.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ServerLiveResponse {
    /// Whether it is.
    #[prost(bool, tag = "1")]
    pub live: bool,
}

/// Whether the server is ready.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ServerReadyRequest {}

/// Whether the server is ready.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ServerReadyResponse {
    /// Whether it is.
    #[prost(bool, tag = "1")]
    pub ready: bool,
}

/// Whether a model is ready.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelReadyRequest {
    /// The name of the model.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The version of the model; empty is the server's choice.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// Whether a model is ready.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelReadyResponse {
    /// Whether it is.
    #[prost(bool, tag = "1")]
    pub ready: bool,
}

/// What the server is.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ServerMetadataRequest {}

/// What the server is.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ServerMetadataResponse {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Its extensions of the protocol.
    #[prost(string, repeated, tag = "3")]
    pub extensions: Vec<String>,
}

/// What a model is.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelMetadataRequest {
    /// The name of the model.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The version of the model; empty is the server's choice.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// An input or output of a model.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TensorMetadata {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The datatype.
    #[prost(string, tag = "2")]
    pub datatype: String,
    /// The length of each dimension; -1 is any.
    #[prost(int64, repeated, tag = "3")]
    pub shape: Vec<i64>,
}

/// What a model is.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelMetadataResponse {
    /// The name of the model.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its versions.
    #[prost(string, repeated, tag = "2")]
    pub versions: Vec<String>,
    /// What computes it.
    #[prost(string, tag = "3")]
    pub platform: String,
    /// Its inputs.
    #[prost(message, repeated, tag = "4")]
    pub inputs: Vec<TensorMetadata>,
    /// Its outputs.
    #[prost(message, repeated, tag = "5")]
    pub outputs: Vec<TensorMetadata>,
}

/// The configuration of a model.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelConfigRequest {
    /// The name of the model.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The version of the model; empty is the server's choice.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// An input in a configuration.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelInput {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The datatype's number.
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    /// The length of each dimension; -1 is any.
    #[prost(int64, repeated, tag = "4")]
    pub dims: Vec<i64>,
    /// Whether a request may leave it out.
    #[prost(bool, tag = "8")]
    pub optional: bool,
}

/// An output in a configuration.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelOutput {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The datatype's number.
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    /// The length of each dimension; -1 is any.
    #[prost(int64, repeated, tag = "3")]
    pub dims: Vec<i64>,
    /// The file with the names of its classes.
    #[prost(string, tag = "4")]
    pub label_filename: String,
}

/// Whether a request may have several answers.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelTransactionPolicy {
    /// Whether it may.
    #[prost(bool, tag = "1")]
    pub decoupled: bool,
}

/// So many of the highest versions.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelVersionsLatest {
    /// How many.
    #[prost(uint32, tag = "1")]
    pub num_versions: u32,
}

/// All versions.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelVersionsAll {}

/// Versions by number.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelVersionsSpecific {
    /// The versions.
    #[prost(int64, repeated, tag = "1")]
    pub versions: Vec<i64>,
}

/// Which versions are served: one of these is there.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelVersionPolicy {
    /// The value.
    #[prost(oneof = "ModelVersionPolicyChoice", tags = "1, 2, 3")]
    pub policy_choice: Option<ModelVersionPolicyChoice>,
}

/// The value of [`ModelVersionPolicy`].
#[derive(Clone, PartialEq, ::prost::Oneof)]
pub enum ModelVersionPolicyChoice {
    /// The highest.
    #[prost(message, tag = "1")]
    Latest(ModelVersionsLatest),
    /// All.
    #[prost(message, tag = "2")]
    All(ModelVersionsAll),
    /// Some.
    #[prost(message, tag = "3")]
    Specific(ModelVersionsSpecific),
}

/// How many requests the model computes at once.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelInstanceGroup {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Requests at once.
    #[prost(int32, tag = "2")]
    pub count: i32,
    /// What it computes on: 2 is the CPU.
    #[prost(int32, tag = "4")]
    pub kind: i32,
}

/// A parameter for what computes the model.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelParameter {
    /// The value.
    #[prost(string, tag = "1")]
    pub string_value: String,
}

/// A step of an ensemble.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelEnsemblingStep {
    /// The name of its model.
    #[prost(string, tag = "1")]
    pub model_name: String,
    /// The version of its model; -1 is the server's choice.
    #[prost(int64, tag = "2")]
    pub model_version: i64,
    /// The model's inputs, each with the ensemble's tensor.
    #[prost(btree_map = "string, string", tag = "3")]
    pub input_map: BTreeMap<String, String>,
    /// The model's outputs, each with the ensemble's tensor.
    #[prost(btree_map = "string, string", tag = "4")]
    pub output_map: BTreeMap<String, String>,
}

/// The steps of an ensemble.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelEnsembling {
    /// The steps.
    #[prost(message, repeated, tag = "1")]
    pub step: Vec<ModelEnsemblingStep>,
}

/// The configuration of a model, as far as it applies.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelConfig {
    /// The name of the model.
    #[prost(string, tag = "1")]
    pub name: String,
    /// What computes it.
    #[prost(string, tag = "2")]
    pub platform: String,
    /// The versions that are served.
    #[prost(message, optional, tag = "3")]
    pub version_policy: Option<ModelVersionPolicy>,
    /// Most rows of a request; 0 if the first dimension of its tensors is theirs.
    #[prost(int32, tag = "4")]
    pub max_batch_size: i32,
    /// Its inputs.
    #[prost(message, repeated, tag = "5")]
    pub input: Vec<ModelInput>,
    /// Its outputs.
    #[prost(message, repeated, tag = "6")]
    pub output: Vec<ModelOutput>,
    /// How many requests it computes at once.
    #[prost(message, repeated, tag = "7")]
    pub instance_group: Vec<ModelInstanceGroup>,
    /// The name of its file.
    #[prost(string, tag = "8")]
    pub default_model_filename: String,
    /// Parameters for what computes it.
    #[prost(btree_map = "string, message", tag = "14")]
    pub parameters: BTreeMap<String, ModelParameter>,
    /// The steps of an ensemble.
    #[prost(message, optional, tag = "15")]
    pub ensemble_scheduling: Option<ModelEnsembling>,
    /// What computes it.
    #[prost(string, tag = "17")]
    pub backend: String,
    /// Whether a request may have several answers.
    #[prost(message, optional, tag = "19")]
    pub model_transaction_policy: Option<ModelTransactionPolicy>,
}

/// The configuration of a model.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelConfigResponse {
    /// The configuration.
    #[prost(message, optional, tag = "1")]
    pub config: Option<ModelConfig>,
}
