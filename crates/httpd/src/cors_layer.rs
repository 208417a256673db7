//! Cross-origin requests of browsers (the Fetch standard's CORS): refused unless their origin is allowed.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use wire::Fault;
use wire::error::quote;

use crate::cors::Cors;
use crate::edge::Edge;
use crate::faults::respond;

/// Headers of an answer that a page's script may read.
const EXPOSED: &str =
    "x-request-id, x-gristmill-warning, retry-after, x-embedding-fingerprint, x-truncated-tokens";
const METHODS: &str = "GET, POST, DELETE";
/// Seconds that a browser may remember what it was told.
const MAX_AGE: &str = "600";
/// Chrome asks with the first before a page of the internet may reach an address of a private network.
const ASKS_PRIVATE: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOWS_PRIVATE: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// Answers preflights, and says in other answers that their page may read them.
pub(crate) async fn apply(Shared(edge): Shared<Arc<Edge>>, request: Request, next: Next) -> Response {
    let Some(cors) = &edge.options.cors else { return next.run(request).await };
    let Some(origin) = request.headers().get(ORIGIN).cloned() else {
        let mut response = next.run(request).await;
        vary(cors, &mut response);
        return response;
    };
    let allowed = cors.allows(&origin);
    let preflight =
        request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match (preflight, allowed) {
        (true, true) => answer(&request),
        (true, false) => respond(&refused(&origin)),
        (false, _) => next.run(request).await,
    };
    if allowed {
        let shown = if cors.is_open() { HeaderValue::from_static("*") } else { origin };
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, shown);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    }
    vary(cors, &mut response);
    response
}

fn vary(cors: &Cors, response: &mut Response) {
    if !cors.is_open() {
        response.headers_mut().append(VARY, HeaderValue::from_static("Origin"));
    }
}

fn refused(origin: &HeaderValue) -> Fault {
    let origin = quote(origin.to_str().unwrap_or("not ASCII"));
    Fault::origin(format!("pages of {origin} may not use this server; --cors-origin names those that may"))
}

/// A preflight needs no key: browsers send none with it.
fn answer(request: &Request) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
    // `*` would leave `authorization` out.
    if let Some(asked) = request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    if request.headers().contains_key(ASKS_PRIVATE) {
        headers.insert(ALLOWS_PRIVATE, HeaderValue::from_static("true"));
    }
    response
}
