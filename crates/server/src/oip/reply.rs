//! What handlers of this protocol share: bodies that ask no model, and answers in JSON.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use wire::{Fault, scan};

use crate::faults;
use crate::state::State;

/// A JSON answer, or the fault in the protocol's shape.
pub(super) fn answered(outcome: Result<Value, Fault>) -> Response {
    outcome.map_or_else(|fault| faults::oip(&fault), |value| axum::Json(value).into_response())
}

/// The body of a request that asks no model.
pub(super) async fn small_body(state: &State, request: Request) -> Result<Vec<u8>, Fault> {
    state.service.open_or_reject()?;
    let limit = state.edge.options.body_bytes;
    let body = httpd::body::read(&state.edge, request, httpd::body::Media::Any).await?;
    let (bytes, _memory) = body.decompressed(limit)?;
    scan::values(&bytes)?;
    Ok(bytes)
}
