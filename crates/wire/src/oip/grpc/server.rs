//! Made of `crates/wire/proto/inference.proto` by `tools/fixtures/oip_messages.py`.

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
}

/// Whether a request may have several answers.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelTransactionPolicy {
    /// Whether it may.
    #[prost(bool, tag = "1")]
    pub decoupled: bool,
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
    /// The first dimension of its tensors is theirs: 0.
    #[prost(int32, tag = "4")]
    pub max_batch_size: i32,
    /// Its inputs.
    #[prost(message, repeated, tag = "5")]
    pub input: Vec<ModelInput>,
    /// Its outputs.
    #[prost(message, repeated, tag = "6")]
    pub output: Vec<ModelOutput>,
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
