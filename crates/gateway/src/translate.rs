//! Requests and answers in other dialects, as the gateway asks for them.

use serde_json::Value;
use translation::{AnswerOptions, Dialect, ErrorClass, RequestOptions, StreamError, StreamTranslator};
use wire::Fault;

use crate::clock;

/// What a client's request says that the translation of its answer needs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asker {
    pub(crate) id: String,
    pub(crate) include_usage: bool,
    /// The request, whose settings an answer of the Responses API repeats.
    pub(crate) request: Option<Value>,
}

impl Asker {
    fn options(&self) -> AnswerOptions<'_> {
        AnswerOptions {
            model: None,
            id: &self.id,
            created_s: u64::try_from(clock::now()).unwrap_or(0),
            include_usage: self.include_usage,
            request: self.request.as_ref(),
            schema_tool: None,
        }
    }
}

/// A request in the upstream's dialect, and what was left out.
///
/// # Errors
/// What the upstream's dialect cannot say.
pub(crate) fn request(
    from: Dialect,
    to: Dialect,
    body: &[u8],
    model: &str,
    stream: bool,
) -> Result<(Vec<u8>, Vec<String>), Fault> {
    let options = RequestOptions { model: Some(model), stream: Some(stream), ..RequestOptions::default() };
    let translated = translation::request(from, to, body, &options)?;
    Ok((translated.body, translated.warnings))
}

/// A whole answer in the client's dialect.
///
/// # Errors
/// An answer that is not in the upstream's dialect.
pub(crate) fn answer(from: Dialect, to: Dialect, body: &[u8], asker: &Asker) -> Result<Vec<u8>, Fault> {
    translation::answer(from, to, body, &asker.options()).map(|answer| answer.body)
}

/// A stream in the client's dialect.
pub(crate) fn stream(from: Dialect, to: Dialect, asker: &Asker) -> StreamTranslator {
    StreamTranslator::new(from, to, asker.options())
}

/// The failure that an upstream's refusal is.
pub(crate) fn failure(
    class: ErrorClass,
    status: u16,
    retry_after: Option<std::time::Duration>,
) -> routing::Failure {
    match class {
        ErrorClass::RateLimited | ErrorClass::Overloaded => routing::Failure::Refused { retry_after },
        ErrorClass::ContextLength => routing::Failure::ContextLength,
        ErrorClass::ContentFilter => routing::Failure::ContentFilter,
        ErrorClass::Auth => routing::Failure::Status(401),
        ErrorClass::Billing => routing::Failure::Status(402),
        ErrorClass::NotFound => routing::Failure::Status(404),
        ErrorClass::BadRequest => {
            routing::Failure::Status(if (400..500).contains(&status) { status } else { 400 })
        }
        ErrorClass::Server => routing::Failure::Status(if status >= 500 { status } else { 500 }),
    }
}

/// The event that ends a stream with a fault of the gateway's own.
pub(crate) fn stream_error(message: &str) -> StreamError {
    StreamError { message: message.to_owned(), code: Some("upstream_failed".to_owned()), status: Some(502) }
}
