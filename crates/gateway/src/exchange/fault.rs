//! Faults in the shape of the client's dialect.

use axum::response::Response;
use translation::Dialect;
use wire::Fault;

/// A fault as an answer in a dialect.
pub(crate) fn respond(dialect: Dialect, fault: &Fault) -> Response {
    let mut response = httpd::respond(fault);
    match dialect {
        Dialect::OpenAiChat | Dialect::OpenAiResponses => {}
        Dialect::Anthropic => *response.body_mut() = wire::anthropic::fault_json(fault).to_string().into(),
        Dialect::Gemini => *response.body_mut() = gemini(fault).to_string().into(),
    }
    response
}

/// A fault in the shape of Google's APIs.
fn gemini(fault: &Fault) -> serde_json::Value {
    let status = match fault.status {
        400 | 413 | 415 | 422 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 | 421 => "PERMISSION_DENIED",
        404 | 405 => "NOT_FOUND",
        408 | 504 => "DEADLINE_EXCEEDED",
        429 => "RESOURCE_EXHAUSTED",
        502 | 503 => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    serde_json::json!({"error": {"code": fault.status, "message": fault.message, "status": status}})
}
