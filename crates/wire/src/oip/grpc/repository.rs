//! Made of `crates/wire/proto/inference.proto` by `tools/fixtures/oip_messages.py`.

use std::collections::BTreeMap;

use bytes::Bytes;

/// What models have done.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelStatisticsRequest {
    /// The name of the model; empty is all.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The version of the model; empty is the server's choice.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// How often something happened, and how long it took.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct StatisticDuration {
    /// How often.
    #[prost(uint64, tag = "1")]
    pub count: u64,
    /// Nanoseconds in all.
    #[prost(uint64, tag = "2")]
    pub ns: u64,
}

/// The times of a model's requests.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct InferStatistics {
    /// Those that succeeded, from arrival to the end.
    #[prost(message, optional, tag = "1")]
    pub success: Option<StatisticDuration>,
    /// Those that failed.
    #[prost(message, optional, tag = "2")]
    pub fail: Option<StatisticDuration>,
    /// Waiting.
    #[prost(message, optional, tag = "3")]
    pub queue: Option<StatisticDuration>,
    /// Preparing inputs: not told apart.
    #[prost(message, optional, tag = "4")]
    pub compute_input: Option<StatisticDuration>,
    /// Computing.
    #[prost(message, optional, tag = "5")]
    pub compute_infer: Option<StatisticDuration>,
    /// Writing outputs: not told apart.
    #[prost(message, optional, tag = "6")]
    pub compute_output: Option<StatisticDuration>,
}

/// What a model has done.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelStatistics {
    /// The name of the model.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The version of the model.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Milliseconds since 1970 of the last request's end.
    #[prost(uint64, tag = "3")]
    pub last_inference: u64,
    /// Inputs that were answered.
    #[prost(uint64, tag = "4")]
    pub inference_count: u64,
    /// Requests that were computed.
    #[prost(uint64, tag = "5")]
    pub execution_count: u64,
    /// Their times.
    #[prost(message, optional, tag = "6")]
    pub inference_stats: Option<InferStatistics>,
}

/// What models have done.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelStatisticsResponse {
    /// A model each.
    #[prost(message, repeated, tag = "1")]
    pub model_stats: Vec<ModelStatistics>,
}

/// A value of a parameter of the repository.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelRepositoryParameter {
    /// The value.
    #[prost(oneof = "ModelRepositoryParameterChoice", tags = "1, 2, 3, 4")]
    pub parameter_choice: Option<ModelRepositoryParameterChoice>,
}

/// The value of [`ModelRepositoryParameter`].
#[derive(Clone, PartialEq, ::prost::Oneof)]
pub enum ModelRepositoryParameterChoice {
    /// A boolean.
    #[prost(bool, tag = "1")]
    BoolParam(bool),
    /// A whole number.
    #[prost(int64, tag = "2")]
    Int64Param(i64),
    /// A text.
    #[prost(string, tag = "3")]
    StringParam(String),
    /// Bytes.
    #[prost(bytes = "bytes", tag = "4")]
    BytesParam(Bytes),
}

/// The models of the repository.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RepositoryIndexRequest {
    /// The repository; there is one.
    #[prost(string, tag = "1")]
    pub repository_name: String,
    /// Whether only models that are ready are wanted.
    #[prost(bool, tag = "2")]
    pub ready: bool,
}

/// A model of the repository.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelIndex {
    /// The name of the model.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The version of the model.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Its state.
    #[prost(string, tag = "3")]
    pub state: String,
    /// Why it is in that state.
    #[prost(string, tag = "4")]
    pub reason: String,
}

/// The models of the repository.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RepositoryIndexResponse {
    /// A model each.
    #[prost(message, repeated, tag = "1")]
    pub models: Vec<ModelIndex>,
}

/// Loads a model.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RepositoryModelLoadRequest {
    /// The repository; there is one.
    #[prost(string, tag = "1")]
    pub repository_name: String,
    /// The name of the model.
    #[prost(string, tag = "2")]
    pub model_name: String,
    /// Parameters.
    #[prost(btree_map = "string, message", tag = "3")]
    pub parameters: BTreeMap<String, ModelRepositoryParameter>,
}

/// The model is loaded.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RepositoryModelLoadResponse {}

/// Unloads a model.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RepositoryModelUnloadRequest {
    /// The repository; there is one.
    #[prost(string, tag = "1")]
    pub repository_name: String,
    /// The name of the model.
    #[prost(string, tag = "2")]
    pub model_name: String,
    /// Parameters.
    #[prost(btree_map = "string, message", tag = "3")]
    pub parameters: BTreeMap<String, ModelRepositoryParameter>,
}

/// The model is being unloaded.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RepositoryModelUnloadResponse {}
