//! Calls about the server and its models.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use service::ModelVersion;
use wire::Fault;
use wire::oip::grpc::{
    InferStatistics, LogSettingValue, LogSettingValueChoice, LogSettingsRequest, LogSettingsResponse,
    ModelIndex, ModelMetadataRequest, ModelMetadataResponse, ModelReadyRequest, ModelReadyResponse,
    ModelStatistics, ModelStatisticsRequest, ModelStatisticsResponse, RepositoryIndexRequest,
    RepositoryIndexResponse, RepositoryModelLoadRequest, RepositoryModelLoadResponse,
    RepositoryModelUnloadRequest, RepositoryModelUnloadResponse, ServerLiveRequest, ServerLiveResponse,
    ServerMetadataRequest, ServerMetadataResponse, ServerReadyRequest, ServerReadyResponse,
    SharedMemoryRegisterRequest, SharedMemoryRegisterResponse, SharedMemoryStatusRequest,
    SharedMemoryStatusResponse, SharedMemoryUnregisterRequest, SharedMemoryUnregisterResponse,
    StatisticDuration, TensorMetadata, TraceSettingRequest, TraceSettingResponse, TraceSettingValue,
};
use wire::oip::{self, EXTENSIONS, ModelState, Signature, Statistics, TensorSpec, check_model_name};

use super::call::Call;
use crate::oip as rest;

pub(super) async fn server_live(call: Call, _: ServerLiveRequest) -> Result<ServerLiveResponse, Fault> {
    Ok(ServerLiveResponse { live: call.state.service.watchdog().stuck().is_none() })
}

pub(super) async fn server_ready(call: Call, _: ServerReadyRequest) -> Result<ServerReadyResponse, Fault> {
    Ok(ServerReadyResponse { ready: call.state.service.is_ready().is_ok() })
}

pub(super) async fn server_metadata(
    _: Call,
    _: ServerMetadataRequest,
) -> Result<ServerMetadataResponse, Fault> {
    Ok(ServerMetadataResponse {
        name: "gristmill".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        extensions: EXTENSIONS.map(str::to_owned).to_vec(),
    })
}

/// The model of a message.
pub(super) fn find(call: &Call, name: &str, version: &str) -> Result<ModelVersion, Fault> {
    check_model_name(name)?;
    call.state.service.find_version(name, version)
}

pub(super) async fn model_ready(call: Call, message: ModelReadyRequest) -> Result<ModelReadyResponse, Fault> {
    let model = find(&call, &message.name, &message.version);
    let ready = model.and_then(|model| rest::readiness(&call.state, model.id));
    Ok(ModelReadyResponse { ready: ready.is_ok() })
}

pub(super) async fn model_metadata(
    call: Call,
    message: ModelMetadataRequest,
) -> Result<ModelMetadataResponse, Fault> {
    let model = find(&call, &message.name, &message.version)?;
    let signature = rest::signature(&call.state, &model.name).await?;
    let Signature { inputs, outputs, platform, .. } = &*signature;
    let tensor = |spec: &TensorSpec| TensorMetadata {
        name: spec.name.clone(),
        datatype: spec.datatype.name().to_owned(),
        shape: spec.shape.clone(),
    };
    Ok(ModelMetadataResponse {
        name: message.name,
        versions: rest::versions_of(&call.state, model.id),
        platform: platform.clone(),
        inputs: inputs.iter().map(tensor).collect(),
        outputs: outputs.iter().map(tensor).collect(),
    })
}

fn statistics(name: String, version: &str, of: &Statistics) -> ModelStatistics {
    let time = |time: oip::Duration| Some(StatisticDuration { count: time.count, ns: time.ns });
    ModelStatistics {
        name,
        version: version.to_owned(),
        last_inference: of.last_inference_ms,
        inference_count: of.inference_count,
        execution_count: of.execution_count,
        inference_stats: Some(InferStatistics {
            success: time(of.success),
            fail: time(of.fail),
            queue: time(of.queue),
            compute_input: time(oip::Duration::default()),
            compute_infer: time(of.compute_infer),
            compute_output: time(oip::Duration::default()),
        }),
    }
}

pub(super) async fn model_statistics(
    call: Call,
    message: ModelStatisticsRequest,
) -> Result<ModelStatisticsResponse, Fault> {
    let model_stats = if message.name.is_empty() {
        let models = rest::all_models(&call.state).into_iter();
        models.map(|(name, version, of)| statistics(name, &version, &of)).collect()
    } else {
        let model = find(&call, &message.name, &message.version)?;
        vec![statistics(message.name, &model.version, &rest::statistics_of(&call.state, model.id))]
    };
    Ok(ModelStatisticsResponse { model_stats })
}

pub(super) async fn repository_index(
    call: Call,
    message: RepositoryIndexRequest,
) -> Result<RepositoryIndexResponse, Fault> {
    let registry = call.state.service.registry();
    let entry = |facts: &service::Facts| {
        let (state, reason) = rest::state_of(facts);
        (!message.ready || state == ModelState::Ready).then(|| ModelIndex {
            name: oip::plain_name(&facts.names[0]).to_owned(),
            version: registry.version(facts.id).to_string(),
            state: state.name().to_owned(),
            reason,
        })
    };
    let facts = registry.facts();
    Ok(RepositoryIndexResponse { models: facts.iter().filter_map(entry).collect() })
}

pub(super) async fn load(
    call: Call,
    message: RepositoryModelLoadRequest,
) -> Result<RepositoryModelLoadResponse, Fault> {
    check_model_name(&message.model_name)?;
    oip::check_load_parameters(message.parameters.keys().map(String::as_str))?;
    rest::load(&call.state, &message.model_name).await?;
    Ok(RepositoryModelLoadResponse {})
}

pub(super) async fn unload(
    call: Call,
    message: RepositoryModelUnloadRequest,
) -> Result<RepositoryModelUnloadResponse, Fault> {
    check_model_name(&message.model_name)?;
    rest::unload(&call.state, &message.model_name)?;
    Ok(RepositoryModelUnloadResponse {})
}

pub(super) async fn memory_status(
    _: Call,
    message: SharedMemoryStatusRequest,
) -> Result<SharedMemoryStatusResponse, Fault> {
    if message.name.is_empty() {
        Ok(SharedMemoryStatusResponse {})
    } else {
        Err(rest::no_region(&message.name))
    }
}

pub(super) async fn memory_register(
    _: Call,
    _: SharedMemoryRegisterRequest,
) -> Result<SharedMemoryRegisterResponse, Fault> {
    Err(rest::no_shared_memory())
}

pub(super) async fn memory_unregister(
    _: Call,
    _: SharedMemoryUnregisterRequest,
) -> Result<SharedMemoryUnregisterResponse, Fault> {
    Ok(SharedMemoryUnregisterResponse {})
}

pub(super) async fn trace_setting(
    _: Call,
    message: TraceSettingRequest,
) -> Result<TraceSettingResponse, Fault> {
    let wanted = message.settings.into_iter().filter(|(_, setting)| !setting.value.is_empty());
    let plain = |values: Vec<String>| match <[String; 1]>::try_from(values) {
        Ok([value]) => Value::from(value),
        Err(values) => Value::from(values),
    };
    let wanted: Map<String, Value> = wanted.map(|(name, setting)| (name, plain(setting.value))).collect();
    let now = rest::unchanged(rest::trace_settings(), &wanted, rest::TRACES)?;
    let texts = |value: &Value| match value {
        Value::Array(values) => values.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        other => vec![other.as_str().unwrap_or_default().to_owned()],
    };
    let setting =
        |(name, value): (&String, &Value)| (name.clone(), TraceSettingValue { value: texts(value) });
    let settings: BTreeMap<_, _> = now.as_object().into_iter().flatten().map(setting).collect();
    Ok(TraceSettingResponse { settings })
}

pub(super) async fn log_settings(_: Call, message: LogSettingsRequest) -> Result<LogSettingsResponse, Fault> {
    let value = |value: LogSettingValue| match value.parameter_choice {
        None => Value::Null,
        Some(LogSettingValueChoice::BoolParam(value)) => value.into(),
        Some(LogSettingValueChoice::Uint32Param(value)) => value.into(),
        Some(LogSettingValueChoice::StringParam(value)) => value.into(),
    };
    let wanted: Map<String, Value> =
        message.settings.into_iter().map(|(name, setting)| (name, value(setting))).collect();
    let now = rest::unchanged(rest::log_settings(), &wanted, rest::LOGS)?;
    let choice = |value: &Value| match value {
        Value::Bool(value) => LogSettingValueChoice::BoolParam(*value),
        Value::Number(value) => LogSettingValueChoice::Uint32Param(
            value.as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        ),
        other => LogSettingValueChoice::StringParam(other.as_str().unwrap_or_default().to_owned()),
    };
    let setting = |(name, value): (&String, &Value)| {
        (name.clone(), LogSettingValue { parameter_choice: Some(choice(value)) })
    };
    Ok(LogSettingsResponse { settings: now.as_object().into_iter().flatten().map(setting).collect() })
}
