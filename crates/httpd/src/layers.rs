//! What every request goes through before its route, and every answer after it.

use std::any::Any;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State as Shared};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use events::{Event, Rejection};
use inference::RequestContext;
use wire::Fault;

use crate::allowance::Allowance;
use crate::edge::Edge;
use crate::faults::respond;
use crate::line::Refused;
use crate::request::Peer;
use crate::traceparent;

/// The header that names a request, taken from the client if it sent a sane one.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const MAX_ID_BYTES: usize = 128;
/// The header that says what of a request is left out or approximated; there may be several.
pub(crate) const WARNING: HeaderName = HeaderName::from_static("x-gristmill-warning");
const MAX_WARNING_BYTES: usize = 256;

/// A handler that panicked. What it said goes to the log, not to the client.
pub(crate) fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    tracing::error!(panic = %text, "a request's handler panicked");
    respond(&Fault::internal("the server failed on this request; its log has the reason"))
}

/// Names the request, counts and logs it.
pub(crate) async fn name_and_count(
    Shared(edge): Shared<Arc<Edge>>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let id = request.headers().get(&REQUEST_ID).filter(|v| is_sane(v)).cloned();
    let id = id.unwrap_or_else(|| HeaderValue::from_str(&new_id(&edge)).expect("hex digits"));
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let method = method_name(request.method());
    let handler = edge.site.label(request.uri().path());
    let address = request.extensions().get::<Peer>().map(|peer| peer.0);
    let named = id.to_str().unwrap_or_default().to_owned();
    let parent = traceparent::read(request.headers());
    let audit = edge.audit.get().cloned();
    let context = RequestContext::new(audit, named, method, handler, address, parent);
    request.extensions_mut().insert(context.clone());
    let mut response = next.run(request).await;
    response.headers_mut().insert(REQUEST_ID, id.clone());
    for warning in context.take_warnings() {
        response.headers_mut().append(WARNING, warning_value(&warning));
    }
    add_security(response.headers_mut());
    let (status, took) = (response.status().as_u16(), began.elapsed());
    context.record_status(status);
    if let Some(handler) = handler {
        edge.metrics.record(Event::HttpAnswered { handler, method, status, took });
    }
    let request_id = id.to_str().unwrap_or_default();
    let took_ms = took.as_secs_f64() * 1e3;
    tracing::info!(request_id, method, path = handler, status, took_ms, "answered");
    response
}

/// What keeps browsers from guessing a type, and caches from keeping an answer that is for one client. The page says itself
/// how long its files may be kept.
fn add_security(headers: &mut HeaderMap) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

/// A warning as a header's value: visible ASCII and spaces, of bounded length.
fn warning_value(warning: &str) -> HeaderValue {
    let visible = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    let text: String = warning.chars().take(MAX_WARNING_BYTES).map(visible).collect();
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("?"))
}

fn is_sane(value: &HeaderValue) -> bool {
    !value.is_empty() && value.len() <= MAX_ID_BYTES && value.as_bytes().iter().all(u8::is_ascii_graphic)
}

/// An id of 128 bits in hex: a keyed hash of a counter, whose key the operating system drew.
pub fn new_id(edge: &Edge) -> String {
    let count = edge.next_id();
    let half = |salt: u64| {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u64(count ^ salt);
        hasher.finish()
    };
    format!("{:016x}{:016x}", half(0), half(u64::MAX))
}

fn method_name(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "PATCH" => "PATCH",
        _ => "OTHER",
    }
}

/// Lets in who may come in. What tells nothing (health, the page) is open.
pub(crate) async fn guard(Shared(edge): Shared<Arc<Edge>>, mut request: Request, next: Next) -> Response {
    if let Some(Refused { fault, path }) = request.extensions_mut().remove() {
        return edge.site.fault(path.as_deref().unwrap_or("/"), &fault);
    }
    match check(&edge, &request) {
        Ok(()) => next.run(request).await,
        Err(fault) => edge.site.fault(request.uri().path(), &fault),
    }
}

/// Who may come in; without keys everybody is the same client.
fn check(edge: &Edge, request: &Request) -> Result<(), Fault> {
    let keys = edge.keys();
    if keys.is_empty() {
        if edge.options.loopback_names_only {
            check_host(request)?;
        }
        return Ok(());
    }
    if edge.site.is_open(request.method(), request.uri().path()) {
        return Ok(());
    }
    let shown = request.headers().get(header::AUTHORIZATION).map(|v| v.to_str().unwrap_or(""));
    // Anthropic's clients show the key alone.
    let alone = request.headers().get("x-api-key").and_then(|v| v.to_str().ok());
    let alone = alone.map(|key| format!("Bearer {key}"));
    if let Some(allowance) = keys.admit(shown.or(alone.as_deref())) {
        return let_in(edge, request, &allowance);
    }
    edge.metrics.record(Event::Rejected(Rejection::Unauthorized));
    Err(Fault::unauthorized(match shown {
        None => "an API key is needed: send the header `Authorization: Bearer KEY`",
        Some(_) => "the API key is not known here",
    }))
}

/// Takes what a request takes of its key's limits. What only looks (`GET`) takes nothing.
fn let_in(edge: &Edge, request: &Request, allowance: &Arc<Allowance>) -> Result<(), Fault> {
    let context = request.extensions().get::<Arc<RequestContext>>();
    if let Some(context) = context {
        context.identify(allowance.client(), allowance.name());
    }
    if request.method() != Method::POST {
        return Ok(());
    }
    match allowance.enter(Instant::now()) {
        Ok(place) => {
            if let Some(context) = context {
                context.attach_place(Box::new(place));
            }
            Ok(())
        }
        Err(spent) => {
            edge.metrics.record(Event::Rejected(Rejection::KeyLimit));
            Err(Fault::key_limit(spent.what, spent.retry_after_s))
        }
    }
}

/// Whether the request is meant for a server on this machine. Its `Host` is one valid name or address (see
/// [`crate::head`]), the same as that of a target in absolute form.
fn check_host(request: &Request) -> Result<(), Fault> {
    // HTTP/2 has the name in `:authority`, and none other beside it (see [`crate::line`]).
    let from_header = request.headers().get(header::HOST).map(|v| v.to_str().unwrap_or("?"));
    // A request of HTTP/1.0 may have no Host, and no browser sends those.
    let Some(host) = from_header.or(request.uri().authority().map(|a| a.as_str())) else { return Ok(()) };
    if is_loopback_name(host) { Ok(()) } else { Err(Fault::misdirected(host)) }
}

fn is_loopback_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_names() {
        for good in [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1:80",
            "127.8.0.1",
            "[::1]:8080",
            "api.localhost",
            "localhost.",
        ] {
            assert!(is_loopback_name(good), "{good}");
        }
        for bad in [
            "example.com",
            "localhost.evil.com",
            "10.0.0.1:8080",
            "[2001:db8::1]:80",
            "",
            "127.0.0.1.evil.com",
            "localhost..",
            "127.1",
            "2130706433",
            "0x7f.0.0.1",
            "0.0.0.0",
        ] {
            assert!(!is_loopback_name(bad), "{bad}");
        }
    }
}
