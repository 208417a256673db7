//! Errors as each provider writes them: as bodies, and as events of a stream that has begun.

use super::stream::{data, named};
use crate::Dialect;
use bytes::Bytes;
use serde_json::{Value, json};

/// What went wrong.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) status: u16,
    pub(crate) message: String,
    /// OpenAI's `code`; the other dialects go by the status.
    pub(crate) code: Option<&'static str>,
}

impl Trouble {
    /// An error with the words that fit its status.
    pub(crate) fn of(status: u16) -> Self {
        let (message, code) = match status {
            401 => ("Incorrect API key provided.", Some("invalid_api_key")),
            402 => ("You have run out of credits.", Some("insufficient_quota")),
            404 => ("The model does not exist or you do not have access to it.", Some("model_not_found")),
            429 => ("Rate limit reached for requests.", Some("rate_limit_exceeded")),
            503 | 529 => ("The engine is currently overloaded, please try again later.", None),
            500.. => ("The server had an error while processing your request.", None),
            _ => ("The request is not valid.", None),
        };
        Self { status, message: message.to_owned(), code }
    }

    /// Status 400 with a reason.
    pub(crate) fn invalid(message: String) -> Self {
        Self { status: 400, message, code: None }
    }

    /// Status 400: too long a prompt.
    pub(crate) fn context_length(dialect: Dialect, tokens: u64) -> Self {
        let message = match dialect {
            Dialect::Messages => format!("prompt is too long: {tokens} tokens > 200000 maximum"),
            Dialect::Gemini => {
                format!("The input token count ({tokens}) exceeds the maximum number of tokens allowed.")
            }
            _ => format!(
                "This model's maximum context length is 8192 tokens. However, your messages resulted in {tokens} \
                 tokens. Please reduce the length of the messages."
            ),
        };
        Self { status: 400, message, code: Some("context_length_exceeded") }
    }

    /// Status 400: refused by a content filter.
    pub(crate) fn content_filter() -> Self {
        let message = "The response was filtered due to the prompt triggering the content management policy.";
        Self { status: 400, message: message.to_owned(), code: Some("content_filter") }
    }

    fn openai_type(&self) -> &'static str {
        match self.status {
            400 | 401 | 404 | 422 => "invalid_request_error",
            402 => "insufficient_quota",
            429 => "requests",
            _ => "server_error",
        }
    }

    fn anthropic_type(&self) -> &'static str {
        match self.status {
            400 | 422 => "invalid_request_error",
            401 => "authentication_error",
            402 => "billing_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            504 => "timeout_error",
            529 => "overloaded_error",
            _ => "api_error",
        }
    }

    fn gemini_status(&self) -> &'static str {
        match self.status {
            400 => "INVALID_ARGUMENT",
            401 => "UNAUTHENTICATED",
            402 => "FAILED_PRECONDITION",
            403 => "PERMISSION_DENIED",
            404 => "NOT_FOUND",
            429 => "RESOURCE_EXHAUSTED",
            503 | 529 => "UNAVAILABLE",
            504 => "DEADLINE_EXCEEDED",
            _ => "INTERNAL",
        }
    }

    /// The body.
    pub(crate) fn body(&self, dialect: Dialect) -> Value {
        match dialect {
            Dialect::Messages => json!({
                "type": "error",
                "error": {"type": self.anthropic_type(), "message": self.message},
                "request_id": "req_fake",
            }),
            Dialect::Gemini => json!({
                "error": {"code": self.status, "message": self.message, "status": self.gemini_status()},
            }),
            _ => json!({
                "error": {"message": self.message, "type": self.openai_type(), "param": null, "code": self.code},
            }),
        }
    }

    /// The event.
    pub(crate) fn event(&self, dialect: Dialect) -> Bytes {
        match dialect {
            Dialect::Messages => named(&self.body(dialect)),
            Dialect::Responses => named(&json!({
                "type": "error",
                "code": self.code.unwrap_or("server_error"),
                "message": self.message,
                "param": null,
                "sequence_number": 0,
            })),
            _ => data(&self.body(dialect)),
        }
    }
}
