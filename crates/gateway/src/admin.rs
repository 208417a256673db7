//! The admin API: what the gateway is doing, what was spent, and draining of upstreams.
//!
//! For keys with `admin = true`. Where the configuration has no keys at all, whoever asks from this machine may. No answer
//! ever holds a key.

mod accounts;
pub(crate) mod state;
mod status;
pub(crate) mod words;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, Request, State as Shared_};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use wire::Fault;

use crate::state::Shared;

/// Paths as metrics name them.
const PATHS: [&str; 7] = [
    "/gateway/status",
    "/gateway/budgets",
    "/gateway/report",
    "/gateway/keys",
    "/gateway/explain",
    "/gateway/upstreams/{name}/drain",
    "/gateway/upstreams/{name}/undrain",
];

/// The routes.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/gateway/status", get(status))
        .route("/gateway/budgets", get(budgets))
        .route("/gateway/report", get(report))
        .route("/gateway/keys", get(keys))
        .route("/gateway/explain", post(explain))
        .route("/gateway/upstreams/{name}/drain", post(drain))
        .route("/gateway/upstreams/{name}/undrain", post(undrain))
}

/// The path of the admin API that this is, as metrics name it.
pub(crate) fn path(path: &str) -> Option<&'static str> {
    if !path.starts_with("/gateway/") {
        return None;
    }
    PATHS.into_iter().find(|known| {
        *known == path
            || known.split_once("{name}").is_some_and(|(before, after)| {
                path.starts_with(before) && path.ends_with(after) && path.len() > before.len() + after.len()
            })
    })
}

/// Whether a request is an administrator's.
///
/// # Errors
/// The fault that its client hears.
fn check(shared: &Shared, request: &Request) -> Result<(), Fault> {
    let snapshot = shared.snapshot.load();
    if !snapshot.keys.is_empty() {
        let name = httpd::context(request).and_then(|context| context.key());
        let key = name.as_ref().and_then(|name| snapshot.keys.get(name));
        return match key {
            Some(key) if key.admin => Ok(()),
            _ => Err(refused("this needs the key of an administrator (admin = true)")),
        };
    }
    let peer = request.extensions().get::<httpd::Peer>();
    if !peer.is_some_and(|peer| peer.0.is_loopback()) {
        return Err(refused("without keys, only clients on this machine may ask for this"));
    }
    same_origin(request.headers())
}

/// A page of another origin that is open in a browser on this machine may not ask: there is no key that it lacks.
fn same_origin(headers: &HeaderMap) -> Result<(), Fault> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    match (origin, text(header::HOST)) {
        (Some(origin), Some(host)) if origin == host => Ok(()),
        _ => Err(refused("a page of another origin may not ask for this")),
    }
}

fn refused(message: &str) -> Fault {
    let mut fault = Fault::origin(message);
    fault.code = Some("admin_only");
    fault
}

/// The answer of an administrator's question.
fn told(answer: Result<Value, Fault>) -> Response {
    match answer {
        Ok(value) => ([(header::CACHE_CONTROL, "no-store")], axum::Json(value)).into_response(),
        Err(fault) => httpd::respond(&fault),
    }
}

async fn status(Shared_(shared): Shared_<Arc<Shared>>, request: Request) -> Response {
    told(check(&shared, &request).map(|()| status::status(&shared)))
}

async fn keys(Shared_(shared): Shared_<Arc<Shared>>, request: Request) -> Response {
    told(check(&shared, &request).map(|()| status::keys(&shared)))
}

async fn budgets(Shared_(shared): Shared_<Arc<Shared>>, request: Request) -> Response {
    told(match check(&shared, &request) {
        Ok(()) => accounts::budgets(&shared).await,
        Err(fault) => Err(fault),
    })
}

async fn report(
    Shared_(shared): Shared_<Arc<Shared>>,
    query: Result<Query<accounts::Asked>, axum::extract::rejection::QueryRejection>,
    request: Request,
) -> Response {
    told(match (check(&shared, &request), query) {
        (Err(fault), _) => Err(fault),
        (Ok(()), Err(_)) => Err(Fault::field("query", "known are from, to and by, each once")),
        (Ok(()), Ok(Query(asked))) => accounts::report(&shared, &asked).await,
    })
}

async fn explain(Shared_(shared): Shared_<Arc<Shared>>, request: Request) -> Response {
    told(match check(&shared, &request) {
        Ok(()) => crate::explain::explain(&shared, request).await,
        Err(fault) => Err(fault),
    })
}

async fn drain(
    Shared_(shared): Shared_<Arc<Shared>>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    told(check(&shared, &request).and_then(|()| set_drained(&shared, &name, true)))
}

async fn undrain(
    Shared_(shared): Shared_<Arc<Shared>>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    told(check(&shared, &request).and_then(|()| set_drained(&shared, &name, false)))
}

fn set_drained(shared: &Shared, name: &str, drain: bool) -> Result<Value, Fault> {
    let snapshot = shared.snapshot.load_full();
    let targets = snapshot.routes.iter().flat_map(|route| route.all());
    let is_there = targets.into_iter().any(|target| target.upstream.name.as_str() == name);
    // One that has gone meanwhile can be taken back.
    if !is_there && (drain || !shared.admin.is_drained(name)) {
        return Err(Fault::field("name", format!("there is no upstream {}", wire::error::quote(name))));
    }
    let changed = shared.admin.set_drained(name, drain);
    if changed {
        tracing::info!(upstream = %name, drained = drain, "an administrator has drained an upstream or taken it back");
    }
    let in_flight = status::in_flight(&snapshot, name);
    Ok(json!({"upstream": name, "drained": shared.admin.is_drained(name), "in_flight": in_flight}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_one_label_each() {
        assert_eq!(path("/gateway/status"), Some("/gateway/status"));
        assert_eq!(path("/gateway/upstreams/a/drain"), Some("/gateway/upstreams/{name}/drain"));
        assert_eq!(path("/gateway/upstreams/a/undrain"), Some("/gateway/upstreams/{name}/undrain"));
        for other in ["/gateway/", "/gateway/upstreams//drain", "/gateway/x", "/v1/models"] {
            assert_eq!(path(other), None, "{other}");
        }
    }
}
