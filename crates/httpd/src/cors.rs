//! Cross-origin requests of browsers (the Fetch standard's CORS): refused unless `--cors-origin` names who may send them.

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

use crate::edge::Edge;
use crate::layers;

/// Headers of an answer that a page's script may read.
const EXPOSED: &str = "x-request-id, x-gristmill-warning, retry-after";
const METHODS: &str = "GET, POST, DELETE";
/// Seconds that a browser may remember what it was told.
const MAX_AGE: &str = "600";
/// Most origins.
const ORIGINS: usize = 64;
/// Chrome asks with the first before a page of the internet may reach an address of a private network.
const ASKS_PRIVATE: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOWS_PRIVATE: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// The origins whose pages may use the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// None is any.
    origins: Option<Vec<String>>,
}

impl Cors {
    /// These origins, each `scheme://host` with a port where it is not the scheme's own, `null`, or `*` for any.
    ///
    /// # Errors
    /// In words, when one is no origin, or there are too many.
    pub fn new(origins: &[String]) -> Result<Cors, String> {
        if origins.len() > ORIGINS {
            return Err(format!("{} origins are given; at most {ORIGINS} are allowed", origins.len()));
        }
        if origins.iter().any(|origin| origin == "*") {
            return Ok(Cors { origins: None });
        }
        let origins: Result<Vec<String>, String> = origins.iter().map(|origin| checked(origin)).collect();
        Ok(Cors { origins: Some(origins?) })
    }

    /// Whether any origin may use the server.
    pub fn is_open(&self) -> bool {
        self.origins.is_none()
    }

    fn allows(&self, origin: &HeaderValue) -> bool {
        match &self.origins {
            None => true,
            Some(known) => origin.to_str().is_ok_and(|o| known.iter().any(|k| k.eq_ignore_ascii_case(o))),
        }
    }
}

/// An origin as browsers send it: no path, and no slash at the end.
fn checked(origin: &str) -> Result<String, String> {
    if origin == "null" {
        return Ok(origin.to_owned());
    }
    let bad = |why: &str| Err(format!("{} is no origin: {why}", quote(origin)));
    let Some((scheme, host)) = origin.split_once("://") else {
        return bad("it must be as https://chat.example.org, or *");
    };
    let scheme_is_good =
        !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    let host_is_good =
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_graphic() && !b"/?#@\\".contains(&b));
    if !scheme_is_good || !host_is_good {
        return bad(
            "it must be scheme://host, with a port if it is not the usual one, and no path behind it",
        );
    }
    Ok(origin.to_ascii_lowercase())
}

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
        (true, false) => layers::respond(&refused(&origin)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_checked() {
        let of = |origins: &[&str]| Cors::new(&origins.iter().map(|o| (*o).to_owned()).collect::<Vec<_>>());
        let two = of(&["https://Chat.example.org", "http://localhost:3000"]).unwrap();
        let allows = |origin: &'static str| two.allows(&HeaderValue::from_static(origin));
        assert!(allows("https://chat.example.org") && allows("http://localhost:3000") && !two.is_open());
        assert!(!allows("http://chat.example.org") && !allows("http://localhost:3001") && !allows("null"));
        assert!(of(&["http://a", "*"]).unwrap().is_open());
        for bad in ["localhost:3000", "https://a/", "https://", "https://a/b", "://a", "", "https://u@a"] {
            assert!(of(&[bad]).is_err(), "{bad}");
        }
    }
}
