//! The repository of models: its index, and loading and unloading (Triton's model repository extension).

use std::sync::Arc;

use axum::extract::{Path, Request, State as Shared};
use axum::response::Response;
use serde_json::{Map, Value};
use service::{Facts, State as Loaded};
use wire::Fault;
use wire::oip::{self, ModelState, check_model_name};

use super::reply::{answered, small_body};
use crate::state::State;

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
        let registry = state.service.registry();
        let facts = registry.facts();
        let entry = |facts: &Facts| {
            let (state, reason) = state_of(facts);
            (!only_ready || state == ModelState::Ready).then(|| {
                oip::index_entry(
                    oip::plain_name(&facts.names[0]),
                    &registry.version(facts.id),
                    state,
                    &reason,
                )
            })
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
        let changed = if loads { load(&state, name).await } else { unload(&state, name) };
        changed.map(|()| Value::Object(Map::new()))
    };
    answered(changed.await)
}

/// Loads a model with all its versions, and waits for it.
pub(crate) async fn load(state: &State, name: &str) -> Result<(), Fault> {
    state.service.open_or_reject()?;
    for version in state.service.versions(state.service.find(Some(name))?) {
        state.service.model(Some(&version.name)).await?;
    }
    Ok(())
}

/// Begins to unload a model with all its versions.
pub(crate) fn unload(state: &State, name: &str) -> Result<(), Fault> {
    let versions = state.service.versions(state.service.find(Some(name))?);
    versions.into_iter().try_for_each(|version| state.service.registry().unload(version.id))
}
