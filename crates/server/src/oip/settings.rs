//! What Triton's clients ask for and this server does not have: settings of traces and of the log, shared memory.

use std::sync::Arc;

use axum::extract::{Path, Request, State as Shared};
use axum::response::Response;
use serde_json::{Map, Value, json};
use wire::Fault;

use super::reply::{answered, small_body};
use crate::state::State;

/// The settings of traces, which are off: traces are exported by `--otlp-endpoint`.
pub(crate) fn trace_settings() -> Value {
    json!({"trace_file": "", "trace_level": ["OFF"], "trace_rate": "1000", "trace_count": "-1",
        "log_frequency": "0", "trace_mode": "triton"})
}

/// The settings of the log.
pub(crate) fn log_settings() -> Value {
    json!({"log_file": "", "log_info": true, "log_warning": true, "log_error": true, "log_verbose_level": 0,
        "log_format": "default"})
}

/// Takes settings that are as they are; refuses others.
pub(crate) fn unchanged(now: Value, wanted: &Map<String, Value>, instead: &str) -> Result<Value, Fault> {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for (name, value) in wanted.iter().filter(|(_, value)| !value.is_null()) {
        let same = now.get(name).is_some_and(|now| plain(now) == plain(value) || json!([value]) == *now);
        if !same {
            let message = format!("{} cannot be changed over the API; {instead}", wire::error::quote(name));
            return Err(Fault::unsupported("settings", message));
        }
    }
    Ok(now)
}

/// What is said of traces.
pub(crate) const TRACES: &str = "traces are exported by `gristmill serve --otlp-endpoint`";
/// What is said of the log.
pub(crate) const LOGS: &str = "the log is set by `gristmill serve --log-format` and RUST_LOG";

async fn changed(state: &State, request: Request, now: Value, instead: &str) -> Result<Value, Fault> {
    let body = small_body(state, request).await?;
    let wanted = if body.is_empty() { json!({}) } else { wire::json::read(&body)? };
    match &wanted {
        Value::Object(wanted) => unchanged(now, wanted, instead),
        _ => Err(Fault::body("the body must be a JSON object")),
    }
}

/// `POST` of settings of traces, of the server or of a model.
pub(super) async fn refuse_trace(state: &State, request: Request) -> Result<Value, Fault> {
    changed(state, request, trace_settings(), TRACES).await
}

/// `GET /v2/trace/setting`.
pub(crate) async fn trace() -> Response {
    answered(Ok(trace_settings()))
}

/// `POST /v2/trace/setting`.
pub(crate) async fn set_trace(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answered(refuse_trace(&state, request).await)
}

/// `GET /v2/logging`.
pub(crate) async fn logging() -> Response {
    answered(Ok(log_settings()))
}

/// `POST /v2/logging`.
pub(crate) async fn set_logging(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answered(changed(&state, request, log_settings(), LOGS).await)
}

/// `GET` below the paths of shared memory: no region is registered.
pub(crate) async fn memory(Path(rest): Path<String>) -> Response {
    answered(match rest.strip_suffix("status").map(|region| region.trim_end_matches('/')) {
        Some("") => Ok(json!([])),
        Some(region) => {
            let region = region.strip_prefix("region/").unwrap_or(region);
            Err(no_region(region))
        }
        None => Err(Fault::not_found(&format!("/v2/systemsharedmemory/{rest}"))),
    })
}

/// The fault of a region of shared memory that is not registered.
pub(crate) fn no_region(region: &str) -> Fault {
    let message = format!("no region of shared memory is called {}", wire::error::quote(region));
    Fault { status: 404, ..Fault::unsupported("region", message) }
}

/// The fault of a region that is to be registered.
pub(crate) fn no_shared_memory() -> Fault {
    Fault::unsupported("region", "shared memory is not supported by this server; send tensors as binary data")
}

/// `POST` below the paths of shared memory: nothing is registered, so that nothing can be taken back.
pub(crate) async fn set_memory(Path(rest): Path<String>) -> Response {
    let unregisters = rest == "unregister" || rest.ends_with("/unregister");
    answered(if unregisters { Ok(json!({})) } else { Err(no_shared_memory()) })
}
