//! The server and its models: liveness, readiness, metadata, configuration, statistics; and requests to a model.

use std::sync::Arc;

use axum::extract::{Path, Request, State as Shared};
use axum::response::{IntoResponse, Response};
use events::InferenceCounts;
use serde_json::{Value, json};
use service::{ModelId, State as ModelState};
use wire::Fault;
use wire::oip::{self, Signature, Statistics};

use super::reply::answered;
use super::target::Target;
use super::{generate, infer, settings};
use crate::faults;
use crate::state::State;

/// `GET /v2/health/live`.
pub(crate) async fn live(Shared(state): Shared<Arc<State>>) -> Response {
    let stuck = state.service.watchdog().stuck();
    let alive = match stuck {
        None => state.service.engines_run(),
        Some(_) => Err(Fault::unavailable("engine_stuck", "the engine has work and makes no step", 60)),
    };
    answered(alive.map(|()| json!({"live": true})))
}

/// `GET /v2/health/ready`.
pub(crate) async fn ready(Shared(state): Shared<Arc<State>>) -> Response {
    answered(state.service.is_ready().map(|()| json!({"ready": true})))
}

/// `GET /v2`.
pub(crate) async fn server() -> Response {
    answered(Ok(oip::server_metadata(env!("CARGO_PKG_VERSION"))))
}

/// `GET` of a model: its metadata, or what the path's end says.
pub(crate) async fn look(Shared(state): Shared<Arc<State>>, Path(rest): Path<String>) -> Response {
    answered(looked(&state, &rest).await)
}

async fn looked(state: &State, rest: &str) -> Result<Value, Fault> {
    let target = Target::read(rest, "GET")?;
    let model = target.find(state)?;
    let name = &target.name;
    match target.action {
        "ready" => readiness(state, model.id).map(|()| json!({"name": name, "ready": true})),
        "config" => {
            let signature = signature(state, &model.name).await?;
            let given = state.capability(Some(&model.name))?.config;
            Ok(oip::model_config(name, &signature, given.as_deref()))
        }
        "stats" => Ok(oip::statistics([(name.as_str(), &*model.version, statistics_of(state, model.id))])),
        "trace/setting" => Ok(settings::trace_settings()),
        _ => {
            let signature = signature(state, &model.name).await?;
            Ok(oip::model_metadata(name, &versions_of(state, model.id), &signature))
        }
    }
}

/// Whether a model is loaded and answers.
///
/// # Errors
/// The model is not ready; the fault says where it is.
pub(crate) fn readiness(state: &State, model: ModelId) -> Result<(), Fault> {
    state.service.is_ready()?;
    let Some(facts) = state.service.registry().facts_of(model) else {
        return Err(Fault::internal("a model that is found is not there"));
    };
    match &facts.state {
        ModelState::Ready(_) => Ok(()),
        other => {
            let message = format!("the model {} is not ready: it is {}", facts.names[0], other.name());
            Err(Fault::unavailable("model_not_ready", message, 1))
        }
    }
}

/// The tensors of a model, which is loaded first if they are not known yet.
pub(crate) async fn signature(state: &State, name: &str) -> Result<Arc<Signature>, Fault> {
    if let Some(signature) = state.capability(Some(name))?.signature {
        return Ok(signature);
    }
    Ok(state.service.model(Some(name)).await?.signature())
}

/// The versions of a model.
pub(crate) fn versions_of(state: &State, model: ModelId) -> Vec<String> {
    state.service.versions(model).into_iter().map(|version| version.version.to_string()).collect()
}

/// What a model has done since the start.
pub(crate) fn statistics_of(state: &State, model: ModelId) -> Statistics {
    let facts = state.service.registry().facts_of(model);
    statistics_named(state, facts.as_ref().map_or("", |facts| facts.names[0].as_str()))
}

/// The statistics of the model whose answers carry this name.
fn statistics_named(state: &State, name: &str) -> Statistics {
    let InferenceCounts { last_ms, items, success, fail, queue, compute } = state.service.inferences(name);
    let time = |time: events::CountedTime| oip::Duration { count: time.count, ns: time.ns };
    Statistics {
        last_inference_ms: last_ms,
        inference_count: items,
        execution_count: success.count,
        success: time(success),
        fail: time(fail),
        queue: time(queue),
        compute_infer: time(compute),
    }
}

/// The statistics of all models, under the first of their names and their version.
pub(crate) fn all_models(state: &State) -> Vec<(String, Arc<str>, Statistics)> {
    let registry = state.service.registry();
    let of = |facts: service::Facts| {
        let name = &facts.names[0];
        (oip::plain_name(name).to_owned(), registry.version(facts.id), statistics_named(state, name))
    };
    registry.facts().into_iter().map(of).collect()
}

/// `GET /v2/models/stats`.
pub(crate) async fn all_statistics(Shared(state): Shared<Arc<State>>) -> Response {
    answered(state.service.open_or_reject().map(|()| {
        let models = all_models(&state);
        oip::statistics(models.iter().map(|(name, version, of)| (name.as_str(), &**version, *of)))
    }))
}

/// `POST` to a model: inference or text.
pub(crate) async fn ask(
    Shared(state): Shared<Arc<State>>,
    Path(rest): Path<String>,
    request: Request,
) -> Response {
    let asked = async {
        let target = Target::read(&rest, "POST")?;
        let model = target.find(&state)?;
        match target.action {
            "infer" => infer::answer(&state, model.name, request).await,
            "generate" => generate::answer(&state, model, request, false).await,
            "generate_stream" => generate::answer(&state, model, request, true).await,
            _ => settings::refuse_trace(&state, request).await.map(|value| axum::Json(value).into_response()),
        }
    };
    asked.await.unwrap_or_else(|fault| faults::oip(&fault))
}
