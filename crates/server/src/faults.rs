//! Faults in the shapes of the APIs that have one of their own.

use axum::http::StatusCode;
use axum::response::Response;
use wire::Fault;

/// Where the paths of Ollama's API begin, also those that are not there.
const OLLAMA: &str = "/api/";

/// A fault of a path that is not there, or does not answer the method: in Ollama's shape below `/api/`, else in OpenAI's.
pub(crate) fn of_path(path: &str, fault: &Fault) -> Response {
    if path.starts_with(OLLAMA) { ollama(fault) } else { httpd::respond(fault) }
}

/// A fault in Ollama's shape.
pub(crate) fn ollama(fault: &Fault) -> Response {
    let mut response = httpd::respond(fault);
    *response.body_mut() = wire::ollama::fault(fault).to_string().into();
    response
}

/// A fault in Anthropic's shape.
pub(crate) fn anthropic(fault: &Fault) -> Response {
    let mut response = httpd::respond(fault);
    *response.body_mut() = wire::anthropic::fault_json(fault).to_string().into();
    response
}

/// A fault in Cohere's shape.
pub(crate) fn cohere(fault: &Fault) -> Response {
    let mut response = httpd::respond(fault);
    *response.body_mut() = wire::cohere::fault(fault).to_string().into();
    response
}

/// A fault in text-generation-inference's shape.
pub(crate) fn tgi(fault: &Fault) -> Response {
    shaped(fault, wire::tgi::fault(fault))
}

/// A fault in text-embeddings-inference's shape.
pub(crate) fn tei(fault: &Fault) -> Response {
    shaped(fault, wire::tei::fault(fault))
}

fn shaped(fault: &Fault, (status, body): (u16, serde_json::Value)) -> Response {
    let mut response = httpd::respond(fault);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.body_mut() = body.to_string().into();
    response
}
