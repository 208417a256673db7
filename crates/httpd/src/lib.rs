//! How bytes come in and go out: what every HTTP server of the program shares.
//!
//! A request's way: connection (bounded, with deadlines for heads and writes) → head, checked strictly → request id →
//! host and key → body (bounded in size, time and memory) → the routes of whoever uses this crate. An answer's way back:
//! bounded while it waits for its reader, counted, logged, named.
//!
//! Deliberately absent: routes, models, the engine, files, the environment, signals.

mod allowance;
mod auth;
pub mod body;
mod body_memory;
mod connection;
mod cors;
mod cors_layer;
mod edge;
mod encoding;
mod faults;
mod head;
mod held;
mod layers;
mod line;
mod options;
mod request;
mod streams;
mod tls;
mod traceparent;
mod write_timeout;

use std::sync::Arc;

use axum::{Router, middleware};
use tower_http::catch_panic::CatchPanicLayer;

pub use allowance::KeyLimits;
pub use auth::{Keys, KeysError};
pub use connection::{Application, serve};
pub use cors::Cors;
pub use edge::{Edge, Site};
pub use encoding::{accepted, compressed};
pub use faults::respond;
pub use layers::{REQUEST_ID, new_id};
pub use options::Options;
pub use request::{Peer, client, context};
pub use tls::{Tls, TlsError};

/// The routes behind the layers that all requests go through.
pub fn layered(routes: Router, edge: &Arc<Edge>) -> Router {
    routes
        .layer(middleware::from_fn_with_state(edge.clone(), held::hold))
        .layer(middleware::from_fn_with_state(edge.clone(), layers::guard))
        .layer(CatchPanicLayer::custom(layers::panicked))
        .layer(middleware::from_fn_with_state(edge.clone(), cors_layer::apply))
        .layer(middleware::from_fn_with_state(edge.clone(), layers::name_and_count))
}
