//! Faults of the store and of requests, in the shapes of the APIs.

use axum::http::{HeaderValue, header};
use axum::response::Response;
use job_store::StoreError;
use wire::Fault;
use wire::error::quote;

/// Seconds after which a full queue is to be asked again.
const FULL_RETRY_S: u32 = 30;
/// Seconds after which a store that cannot be reached is to be asked again.
const STORE_RETRY_S: u32 = 2;

/// A fault of a kind that is only found here.
pub(crate) fn fault(status: u16, code: &'static str, message: impl Into<String>) -> Fault {
    let kind = if status >= 500 { "server_error" } else { "invalid_request_error" };
    Fault { status, message: message.into(), kind, param: None, code: Some(code), retry_after_s: None }
}

/// 409: the thing is not in a state in which this can be done.
pub(crate) fn conflict(message: impl Into<String>) -> Fault {
    fault(409, "conflict", message)
}

/// 404: there is no such thing, or it is another key's.
pub(crate) fn not_found(what: &str, id: &str) -> Fault {
    fault(404, "not_found", format!("there is no {what} {}", quote(id)))
}

/// 429: as many requests wait as may.
pub(crate) fn waiting(most: usize) -> Fault {
    Fault::busy(format!("{most} requests wait for jobs already, which is the limit"), 5)
}

/// What a client is told of a failed call of the store.
pub(crate) fn of_store(error: StoreError) -> Fault {
    let message = error.to_string();
    match error {
        StoreError::Unavailable(_) => Fault::unavailable("store_unavailable", message, STORE_RETRY_S),
        StoreError::Full(_) => fault(507, "storage_full", message),
        StoreError::Limit { what, .. } if what.starts_with("bytes") => fault(507, "storage_full", message),
        StoreError::Limit { .. } => Fault::busy(message, FULL_RETRY_S),
        StoreError::NotFound(_) => fault(404, "not_found", message),
        StoreError::Gone(_) => fault(410, "gone", message),
        StoreError::Conflict(_) => conflict(message),
        StoreError::OtherRequest => fault(422, "idempotency_key_reused", message),
        StoreError::TooNew { .. }
        | StoreError::InUse { .. }
        | StoreError::NetworkFileSystem { .. }
        | StoreError::Damaged { .. } => Fault::internal(message),
    }
}

/// As [`of_store`], naming the thing that was asked for.
pub(crate) fn of_store_for(error: StoreError, id: &str) -> Fault {
    match error {
        StoreError::NotFound(what) => not_found(what, id),
        StoreError::Gone(what) => fault(410, "gone", format!("the {what} {} is no longer kept", quote(id))),
        other => of_store(other),
    }
}

/// A fault in Anthropic's shape.
pub(crate) fn anthropic(fault: &Fault) -> Response {
    let mut response = httpd::respond(fault);
    *response.body_mut() = wire::anthropic::fault_json(fault).to_string().into();
    response
}

/// A response of JSON.
pub(crate) fn json<T: serde::Serialize>(value: &T) -> Response {
    let body = serde_json::to_vec(value).expect("objects of the API have names that are strings");
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An answer, or its fault in OpenAI's shape.
pub(crate) fn answer(answered: Result<Response, Fault>) -> Response {
    answered.unwrap_or_else(|fault| httpd::respond(&fault))
}

/// An answer, or its fault in Anthropic's shape.
pub(crate) fn answer_anthropic(answered: Result<Response, Fault>) -> Response {
    answered.unwrap_or_else(|fault| anthropic(&fault))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_of_the_store() {
        let limit = |what| StoreError::Limit { what, most: 1 };
        for (error, status, code) in [
            (StoreError::Unavailable("x".into()), 503, "store_unavailable"),
            (StoreError::Full("x".into()), 507, "storage_full"),
            (limit("bytes of the store"), 507, "storage_full"),
            (limit("open jobs"), 429, "queue_full"),
            (StoreError::NotFound("job"), 404, "not_found"),
            (StoreError::Gone("job"), 410, "gone"),
            (StoreError::Conflict("x".into()), 409, "conflict"),
            (StoreError::OtherRequest, 422, "idempotency_key_reused"),
        ] {
            let fault = of_store(error);
            assert_eq!((fault.status, fault.code), (status, Some(code)));
        }
        let named = of_store_for(StoreError::NotFound("file"), "file-1");
        assert_eq!(named.message, "there is no file \"file-1\"");
    }
}
