//! Made of `crates/wire/proto/inference.proto` by `tools/fixtures/oip_messages.py`.

use std::collections::BTreeMap;

use bytes::Bytes;

/// A value of a parameter.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct InferParameter {
    /// The value.
    #[prost(oneof = "InferParameterChoice", tags = "1, 2, 3, 4, 5")]
    pub parameter_choice: Option<InferParameterChoice>,
}

/// The value of [`InferParameter`].
#[derive(Clone, PartialEq, ::prost::Oneof)]
pub enum InferParameterChoice {
    /// A boolean.
    #[prost(bool, tag = "1")]
    BoolParam(bool),
    /// A whole number.
    #[prost(int64, tag = "2")]
    Int64Param(i64),
    /// A text.
    #[prost(string, tag = "3")]
    StringParam(String),
    /// Another number.
    #[prost(double, tag = "4")]
    DoubleParam(f64),
    /// A whole number that is not negative.
    #[prost(uint64, tag = "5")]
    Uint64Param(u64),
}

/// The elements of a tensor, in the field of its datatype.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct InferTensorContents {
    /// BOOL.
    #[prost(bool, repeated, tag = "1")]
    pub bool_contents: Vec<bool>,
    /// INT8, INT16 and INT32.
    #[prost(int32, repeated, tag = "2")]
    pub int_contents: Vec<i32>,
    /// INT64.
    #[prost(int64, repeated, tag = "3")]
    pub int64_contents: Vec<i64>,
    /// UINT8, UINT16 and UINT32.
    #[prost(uint32, repeated, tag = "4")]
    pub uint_contents: Vec<u32>,
    /// UINT64.
    #[prost(uint64, repeated, tag = "5")]
    pub uint64_contents: Vec<u64>,
    /// FP32.
    #[prost(float, repeated, tag = "6")]
    pub fp32_contents: Vec<f32>,
    /// FP64.
    #[prost(double, repeated, tag = "7")]
    pub fp64_contents: Vec<f64>,
    /// BYTES.
    #[prost(bytes = "bytes", repeated, tag = "8")]
    pub bytes_contents: Vec<Bytes>,
}

/// An input of a request.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct InferInputTensor {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The datatype.
    #[prost(string, tag = "2")]
    pub datatype: String,
    /// The length of each dimension.
    #[prost(int64, repeated, tag = "3")]
    pub shape: Vec<i64>,
    /// Parameters.
    #[prost(btree_map = "string, message", tag = "4")]
    pub parameters: BTreeMap<String, InferParameter>,
    /// The elements, unless they are in `raw_input_contents`.
    #[prost(message, optional, tag = "5")]
    pub contents: Option<InferTensorContents>,
}

/// An output that is wanted.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct InferRequestedOutputTensor {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Parameters.
    #[prost(btree_map = "string, message", tag = "2")]
    pub parameters: BTreeMap<String, InferParameter>,
}

/// A request for inference.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelInferRequest {
    /// The name of the model.
    #[prost(string, tag = "1")]
    pub model_name: String,
    /// The version of the model; empty is the server's choice.
    #[prost(string, tag = "2")]
    pub model_version: String,
    /// The client's id of the request.
    #[prost(string, tag = "3")]
    pub id: String,
    /// Parameters.
    #[prost(btree_map = "string, message", tag = "4")]
    pub parameters: BTreeMap<String, InferParameter>,
    /// The inputs.
    #[prost(message, repeated, tag = "5")]
    pub inputs: Vec<InferInputTensor>,
    /// The outputs that are wanted; none is all.
    #[prost(message, repeated, tag = "6")]
    pub outputs: Vec<InferRequestedOutputTensor>,
    /// The elements of the inputs in binary, in their order.
    #[prost(bytes = "bytes", repeated, tag = "7")]
    pub raw_input_contents: Vec<Bytes>,
}

/// An output of an answer.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct InferOutputTensor {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The datatype.
    #[prost(string, tag = "2")]
    pub datatype: String,
    /// The length of each dimension.
    #[prost(int64, repeated, tag = "3")]
    pub shape: Vec<i64>,
    /// Parameters.
    #[prost(btree_map = "string, message", tag = "4")]
    pub parameters: BTreeMap<String, InferParameter>,
    /// The elements, unless they are in `raw_output_contents`.
    #[prost(message, optional, tag = "5")]
    pub contents: Option<InferTensorContents>,
}

/// The answer to a request for inference.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelInferResponse {
    /// The name of the model.
    #[prost(string, tag = "1")]
    pub model_name: String,
    /// The version of the model.
    #[prost(string, tag = "2")]
    pub model_version: String,
    /// The client's id of the request.
    #[prost(string, tag = "3")]
    pub id: String,
    /// Parameters.
    #[prost(btree_map = "string, message", tag = "4")]
    pub parameters: BTreeMap<String, InferParameter>,
    /// The outputs.
    #[prost(message, repeated, tag = "5")]
    pub outputs: Vec<InferOutputTensor>,
    /// The elements of the outputs in binary, in their order.
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub raw_output_contents: Vec<Bytes>,
}

/// One of the answers to requests of a stream.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelStreamInferResponse {
    /// What went wrong; empty if nothing did.
    #[prost(string, tag = "1")]
    pub error_message: String,
    /// The answer.
    #[prost(message, optional, tag = "2")]
    pub infer_response: Option<ModelInferResponse>,
}
