//! Faults in the shapes of the APIs that have one of their own.

use axum::http::StatusCode;
use axum::response::Response;
use wire::Fault;
use wire::routes::ErrorFormat;

/// Where the paths of Ollama's API begin, also those that are not there.
const OLLAMA: &str = "/api/";

/// Where the paths of the Open Inference Protocol begin, also those that are not there.
const OIP: &str = "/v2/";

/// A fault of a path that is not there, or does not answer the method: in the shape of
/// Ollama below `/api/`, of the Open Inference Protocol below `/v2/`, else of OpenAI.
pub(crate) fn of_path(path: &str, fault: &Fault) -> Response {
    if path.starts_with(OLLAMA) {
        return ollama(fault);
    }
    if path.starts_with(OIP) { oip(fault) } else { httpd::respond(fault) }
}

/// A fault in the shape of a route's API.
pub(crate) fn of_format(format: ErrorFormat, fault: &Fault) -> Response {
    match format {
        ErrorFormat::OpenAi => httpd::respond(fault),
        ErrorFormat::Anthropic => anthropic(fault),
        ErrorFormat::Tgi => tgi(fault),
        ErrorFormat::Ollama => ollama(fault),
        ErrorFormat::Tei => tei(fault),
        ErrorFormat::Cohere => cohere(fault),
        ErrorFormat::Oip => oip(fault),
        ErrorFormat::Grpc => grpc(fault),
    }
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

/// A fault as a status of gRPC.
pub(crate) fn status(fault: &Fault) -> tonic::Status {
    let code = match fault.status {
        400 | 415 | 422 => tonic::Code::InvalidArgument,
        401 => tonic::Code::Unauthenticated,
        403 | 421 => tonic::Code::PermissionDenied,
        404 => tonic::Code::NotFound,
        405 | 501 => tonic::Code::Unimplemented,
        408 => tonic::Code::DeadlineExceeded,
        413 | 429 | 431 => tonic::Code::ResourceExhausted,
        503 => tonic::Code::Unavailable,
        _ => tonic::Code::Internal,
    };
    tonic::Status::new(code, fault.message.clone())
}

/// A fault as gRPC answers it: by trailers alone.
pub(crate) fn grpc(fault: &Fault) -> Response {
    status(fault).into_http::<tonic::body::Body>().map(axum::body::Body::new)
}

/// A fault in the Open Inference Protocol's shape.
pub(crate) fn oip(fault: &Fault) -> Response {
    shaped(fault, (fault.status, wire::oip::fault(fault)))
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
