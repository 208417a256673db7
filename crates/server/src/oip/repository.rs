//! The repository of models: its index, and loading and unloading (Triton's model repository extension).

use std::sync::Arc;

use axum::extract::{Path, Request, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use service::{Facts, State as Loaded};
use wire::oip::{self, ModelState, check_model_name};
use wire::{Fault, scan};

use super::models::answered;
use crate::faults;
use crate::state::State;

/// The body of a request that asks no model.
pub(super) async fn small_body(state: &State, request: Request) -> Result<Vec<u8>, Fault> {
    state.service.open_or_reject()?;
    let limit = state.edge.options.body_bytes;
    let body = httpd::body::read(&state.edge, request, httpd::body::Media::Any).await?;
    let (bytes, _memory) = body.decompressed(limit)?;
    scan::values(&bytes)?;
    Ok(bytes)
}

/// The state of a model in the protocol's words, and why it is in it.
pub(crate) fn state_of(facts: &Facts) -> (ModelState, String) {
    match &facts.state {
        Loaded::Ready(_) => (ModelState::Ready, String::new()),
        Loaded::Loading(what) => (ModelState::Loading, what.clone()),
        Loaded::Draining => (ModelState::Unloading, String::new()),
        Loaded::Registered => (ModelState::Unavailable, "it is loaded when it is asked for".to_owned()),
        Loaded::Failed(why) => (ModelState::Unavailable, why.clone()),
    }
}

/// `POST /v2/repository/index`.
pub(crate) async fn index(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let listed = async {
        let only_ready = oip::wants_ready(&small_body(&state, request).await?)?;
        let facts = state.service.registry().facts();
        let entry = |facts: &Facts| {
            let (state, reason) = state_of(facts);
            (!only_ready || state == ModelState::Ready)
                .then(|| oip::index_entry(&facts.names[0], state, &reason))
        };
        Ok(Value::from(facts.iter().filter_map(entry).collect::<Vec<_>>()))
    };
    answered(listed.await)
}

/// `POST /v2/repository/models/NAME/load` and `/unload`.
pub(crate) async fn change(
    Shared(state): Shared<Arc<State>>,
    Path(rest): Path<String>,
    request: Request,
) -> Response {
    let changed = async {
        let (name, loads) = match (rest.strip_suffix("/load"), rest.strip_suffix("/unload")) {
            (Some(name), _) => (name, true),
            (None, Some(name)) => (name, false),
            (None, None) => return Err(Fault::not_found(&format!("/v2/repository/models/{rest}"))),
        };
        check_model_name(name)?;
        oip::load_parameters(&small_body(&state, request).await?)?;
        if loads { load(&state, name).await } else { unload(&state, name) }
    };
    changed.await.map_or_else(|fault| faults::oip(&fault), |()| StatusCode::OK.into_response())
}

/// Loads a model, and waits for it.
pub(crate) async fn load(state: &State, name: &str) -> Result<(), Fault> {
    state.service.model(Some(name)).await.map(drop)
}

/// Begins to unload a model.
pub(crate) fn unload(state: &State, name: &str) -> Result<(), Fault> {
    let index = state.service.find(Some(name))?;
    state.service.registry().unload(index)
}
