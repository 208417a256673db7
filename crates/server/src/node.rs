//! What a gateway is told of this node: its record, and its load on every answer.

use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use wire::node::{LOAD_HEADER, NODE_HEADER};

use crate::state::State;

/// `GET /v1/node`; it answers while a model is loading too.
pub(crate) async fn record(Shared(state): Shared<Arc<State>>) -> Response {
    let record = serde_json::to_string(&state.service.node_record())
        .expect("records have string keys, which serialize");
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (headers, record).into_response()
}

/// Adds the load to an answer, as it is when the answer begins: for a stream with the first of it.
pub(crate) async fn add_load(Shared(state): Shared<Arc<State>>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    if let Ok(load) = HeaderValue::from_str(&state.service.node_load().header()) {
        headers.insert(HeaderName::from_static(LOAD_HEADER), load);
    }
    if let Ok(id) = HeaderValue::from_str(state.service.node_id()) {
        headers.insert(HeaderName::from_static(NODE_HEADER), id);
    }
    response
}
