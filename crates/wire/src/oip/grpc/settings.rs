//! Made of `crates/wire/proto/inference.proto` by `tools/fixtures/oip_messages.py`.

use std::collections::BTreeMap;

/// The regions of shared memory, of the system's and of CUDA's.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SharedMemoryStatusRequest {
    /// The name of a region; empty is all.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// The regions of shared memory: there are none.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SharedMemoryStatusResponse {}

/// Registers a region of shared memory.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SharedMemoryRegisterRequest {
    /// The name of the region.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// The region is registered.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SharedMemoryRegisterResponse {}

/// Takes back regions of shared memory.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SharedMemoryUnregisterRequest {
    /// The name of a region; empty is all.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// The regions are taken back.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SharedMemoryUnregisterResponse {}

/// A setting of traces.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TraceSettingValue {
    /// Its values; none sets it back.
    #[prost(string, repeated, tag = "1")]
    pub value: Vec<String>,
}

/// The settings of traces.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TraceSettingRequest {
    /// Settings to change.
    #[prost(btree_map = "string, message", tag = "1")]
    pub settings: BTreeMap<String, TraceSettingValue>,
    /// The name of a model; empty is the server.
    #[prost(string, tag = "2")]
    pub model_name: String,
}

/// The settings of traces.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TraceSettingResponse {
    /// The settings now.
    #[prost(btree_map = "string, message", tag = "1")]
    pub settings: BTreeMap<String, TraceSettingValue>,
}

/// A setting of the log.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct LogSettingValue {
    /// The value.
    #[prost(oneof = "LogSettingValueChoice", tags = "1, 2, 3")]
    pub parameter_choice: Option<LogSettingValueChoice>,
}

/// The value of [`LogSettingValue`].
#[derive(Clone, PartialEq, ::prost::Oneof)]
pub enum LogSettingValueChoice {
    /// A boolean.
    #[prost(bool, tag = "1")]
    BoolParam(bool),
    /// A number.
    #[prost(uint32, tag = "2")]
    Uint32Param(u32),
    /// A text.
    #[prost(string, tag = "3")]
    StringParam(String),
}

/// The settings of the log.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct LogSettingsRequest {
    /// Settings to change.
    #[prost(btree_map = "string, message", tag = "1")]
    pub settings: BTreeMap<String, LogSettingValue>,
}

/// The settings of the log.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct LogSettingsResponse {
    /// The settings now.
    #[prost(btree_map = "string, message", tag = "1")]
    pub settings: BTreeMap<String, LogSettingValue>,
}
