//! Requests and answers in other dialects, as the gateway asks for them.

use serde_json::Value;
use translation::{Dialect, Ending};
use wire::Fault;

/// What an upstream's refusal means.
pub(crate) enum Class {
    RateLimited,
    Overloaded,
    ContextLength,
    ContentFilter,
    Other,
}

/// A translated request.
pub(crate) struct Translated {
    pub(crate) body: Vec<u8>,
    pub(crate) warnings: Vec<String>,
}

pub(crate) fn request(
    from: Dialect,
    to: Dialect,
    _body: &[u8],
    _model: &str,
    _stream: bool,
) -> Result<Translated, Fault> {
    Err(Fault::body(format!("{from} cannot be translated to {to}")))
}

pub(crate) fn answer(
    from: Dialect,
    to: Dialect,
    _body: &[u8],
    _model: &str,
    _id: &str,
) -> Result<Vec<u8>, Fault> {
    Err(Fault::body(format!("{from} cannot be translated to {to}")))
}

pub(crate) fn classify(_dialect: Dialect, status: u16, body: &[u8]) -> Class {
    let text = String::from_utf8_lossy(body);
    match status {
        429 => Class::RateLimited,
        529 => Class::Overloaded,
        400 if text.contains("context_length") => Class::ContextLength,
        400 if text.contains("content_filter") || text.contains("content_policy") => Class::ContentFilter,
        _ => Class::Other,
    }
}

pub(crate) fn error(_from: Dialect, _to: Dialect, status: u16, body: &[u8]) -> (u16, Vec<u8>) {
    (status, body.to_vec())
}

pub(crate) fn stream_error(_dialect: Dialect, message: &str) -> String {
    let error = Value::from(message);
    format!("data: {{\"error\":{{\"message\":{error},\"type\":\"server_error\",\"param\":null,\"code\":\"upstream_failed\"}}}}\n\n")
}

pub(crate) struct StreamTranslator;

impl StreamTranslator {
    pub(crate) fn new(_from: Dialect, _to: Dialect, _model: &str, _id: &str) -> StreamTranslator {
        StreamTranslator
    }

    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(bytes);
    }

    pub(crate) fn finish(&mut self, _ending: Ending, _out: &mut Vec<u8>) {}

    pub(crate) fn fail(&mut self, _message: &str, _out: &mut Vec<u8>) {}
}
