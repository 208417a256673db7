//! Errors in OpenAI's format, `{"error": {"message", "type", "param", "code"}}`, with their HTTP status.

use serde::Serialize;

/// Names of models that an error lists; there may be hundreds.
const MOST_NAMES: usize = 16;

/// An error response. Each constructor is one row of the table in `docs/api-reference.md`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// HTTP status.
    pub status: u16,
    /// What is wrong, with the value and the limit.
    pub message: String,
    /// OpenAI's `type`: `invalid_request_error`, `rate_limit_error`, …
    pub kind: &'static str,
    /// Path of the field at fault: `messages[2].content`.
    pub param: Option<String>,
    /// Stable error code for programs: `invalid_value`, `queue_full`, …
    pub code: Option<&'static str>,
    /// Seconds after which to retry (the `Retry-After` header).
    pub retry_after_s: Option<u32>,
}

#[derive(Serialize)]
struct ErrorObject<'a> {
    message: &'a str,
    r#type: &'static str,
    param: Option<&'a str>,
    code: Option<&'static str>,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: ErrorObject<'a>,
}

impl Fault {
    fn new(status: u16, kind: &'static str, code: Option<&'static str>, message: impl Into<String>) -> Fault {
        Fault { status, message: message.into(), kind, param: None, code, retry_after_s: None }
    }

    /// 400: a field has an invalid value.
    pub fn field(param: impl Into<String>, message: impl Into<String>) -> Fault {
        let mut fault = Fault::new(400, "invalid_request_error", Some("invalid_value"), message);
        fault.param = Some(param.into());
        fault
    }

    /// The fault with the field `from` renamed to `to`, in `param` and at the start of the message.
    #[must_use]
    pub fn renamed(mut self, from: &str, to: &str) -> Fault {
        let ends = |rest: &str| rest.chars().next().is_none_or(|c| !c.is_alphanumeric() && c != '_');
        let change =
            |text: &str| text.strip_prefix(from).filter(|rest| ends(rest)).map(|rest| format!("{to}{rest}"));
        if let Some(param) = self.param.as_deref().and_then(change) {
            self.param = Some(param);
            self.message = change(&self.message).unwrap_or(self.message);
        }
        self
    }

    /// 400: a required field is missing.
    pub fn missing(param: impl Into<String>) -> Fault {
        let param = param.into();
        let mut fault = Fault::field(param.clone(), format!("{param} is required"));
        fault.code = Some("missing_required_parameter");
        fault
    }

    /// 400: an option of other servers that this one does not support.
    pub fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Fault {
        let mut fault = Fault::field(param, message);
        fault.code = Some("unsupported_parameter");
        fault
    }

    /// 400: the body is not JSON.
    pub fn not_json(why: impl std::fmt::Display) -> Fault {
        let message = format!("the body is not valid JSON: {why}");
        Fault::new(400, "invalid_request_error", Some("invalid_json"), message)
    }

    /// 400: the body as a whole is invalid.
    pub fn body(message: impl Into<String>) -> Fault {
        Fault::new(400, "invalid_request_error", None, message)
    }

    /// 400: the prompt leaves no space for an answer in the context.
    pub fn context(param: &str, tokens: usize, context: usize) -> Fault {
        let mut fault = Fault::field(
            param,
            format!(
                "the prompt has {tokens} tokens; this server's context is {context} tokens \
                 and at least one must be left for the answer"
            ),
        );
        fault.code = Some("context_length_exceeded");
        fault
    }

    /// 400: as [`Fault::context`], for a prompt that was not tokenized to its end. `counts` where the limit is not the
    /// context but the most tokens that the server counts.
    pub fn context_at_least(param: &str, tokens: usize, limit: usize, counts: bool) -> Fault {
        let limit = match counts {
            false => format!(
                "this server's context is {limit} tokens and at least one must be left for the answer"
            ),
            true => format!("this server counts {limit} tokens at most"),
        };
        let mut fault = Fault::field(param, format!("the prompt has at least {tokens} tokens; {limit}"));
        fault.code = Some("context_length_exceeded");
        fault
    }

    /// 400: the chat template rejected the messages or failed.
    pub fn template(message: impl Into<String>) -> Fault {
        let mut fault = Fault::field("messages", message);
        fault.code = Some("chat_template_error");
        fault
    }

    /// 401: no API key, or an unknown one.
    pub fn unauthorized(message: impl Into<String>) -> Fault {
        Fault::new(401, "authentication_error", Some("invalid_api_key"), message)
    }

    /// 403: a web page of an origin that is not allowed.
    pub fn origin(message: impl Into<String>) -> Fault {
        Fault::new(403, "permission_error", Some("origin_not_allowed"), message)
    }

    /// 415: the body has an unsupported compression.
    pub fn content_encoding(found: &str) -> Fault {
        let message = format!(
            "the request has content-encoding {}; it must be gzip, deflate or identity",
            quote(found)
        );
        Fault::new(415, "invalid_request_error", Some("unsupported_content_encoding"), message)
    }

    /// 404: no such path.
    pub fn not_found(path: &str) -> Fault {
        let message = format!("there is nothing at {}", shorten(path));
        Fault::new(404, "invalid_request_error", Some("not_found"), message)
    }

    /// 404: a response that is not stored, or is another client's.
    pub fn no_response(id: &str) -> Fault {
        let message =
            format!("there is no response {}: it was not stored, or is not kept any more", quote(id));
        let mut fault = Fault::new(404, "invalid_request_error", Some("response_not_found"), message);
        fault.param = Some("response_id".into());
        fault
    }

    /// 404: conversations, a part of the Responses API that is not supported.
    pub fn no_conversations() -> Fault {
        let message = "conversations are not kept here; use previous_response_id, or send the items as input";
        Fault::new(404, "invalid_request_error", Some("not_found"), message)
    }

    /// 404: a model that this server does not have.
    pub fn no_model(name: &str, served: &[String]) -> Fault {
        let mut listed = served[..served.len().min(MOST_NAMES)].join(", ");
        if served.len() > MOST_NAMES {
            listed = format!("{listed} and {} more", served.len() - MOST_NAMES);
        }
        let message = format!("model {} is not served here; served: {listed}", quote(name));
        let mut fault = Fault::new(404, "invalid_request_error", Some("model_not_found"), message);
        fault.param = Some("model".into());
        fault
    }

    /// 404: a version of a model that this server does not have.
    pub fn no_version(model: &str, version: &str, served: &str) -> Fault {
        let message = format!(
            "version {} of model {} is not served here; served: {served}",
            quote(version),
            quote(model)
        );
        let mut fault = Fault::new(404, "invalid_request_error", Some("model_not_found"), message);
        fault.param = Some("model_version".into());
        fault
    }

    /// 405: a known path without this method.
    pub fn method(method: &str, path: &str) -> Fault {
        let message = format!("{} does not answer {}", shorten(path), shorten(method));
        Fault::new(405, "invalid_request_error", Some("method_not_allowed"), message)
    }

    /// 408: the body did not arrive in time.
    pub fn slow_body(seconds: u64) -> Fault {
        let message = format!("the body did not arrive within {seconds} s");
        Fault::new(408, "invalid_request_error", Some("request_timeout"), message)
    }

    /// 408: the request's own time limit passed. A retry with the same limit would likely fail again.
    pub fn expired(message: impl Into<String>) -> Fault {
        Fault::new(408, "timeout_error", Some("time_limit_exceeded"), message)
    }

    /// 413: the body is too large.
    pub fn too_large(limit_bytes: usize) -> Fault {
        let message = format!("the body is larger than the limit of {limit_bytes} bytes");
        Fault::new(413, "invalid_request_error", Some("body_too_large"), message)
    }

    /// 413: the body has too many JSON values.
    pub fn too_many_values(values: usize, limit: usize) -> Fault {
        let message = format!(
            "the body has {values} JSON values (an object counts as {}); the limit is {limit}",
            crate::limits::VALUES_OF_AN_OBJECT
        );
        Fault::new(413, "invalid_request_error", Some("body_too_complex"), message)
    }

    /// 415: the body's content type is not JSON.
    pub fn media_type(found: Option<&str>) -> Fault {
        let found = found.map_or("no content-type".to_owned(), |f| format!("content-type {}", quote(f)));
        let message = format!("the request has {found}; it must be application/json");
        Fault::new(415, "invalid_request_error", Some("unsupported_media_type"), message)
    }

    /// 421: a `Host` header that is not a loopback name.
    pub fn misdirected(host: &str) -> Fault {
        let message = format!(
            "Host {} is not a name of this machine's loopback; a server without an API key answers to \
             localhost only (give it a key to use other names)",
            quote(host)
        );
        Fault::new(421, "invalid_request_error", Some("misdirected_request"), message)
    }

    /// 501: the server was not started to do this.
    pub fn switched_off(code: &'static str, message: impl Into<String>) -> Fault {
        Fault::new(501, "invalid_request_error", Some(code), message)
    }

    /// 429: the queue is full.
    pub fn busy(message: impl Into<String>, retry_after_s: u32) -> Fault {
        let mut fault = Fault::new(429, "rate_limit_error", Some("queue_full"), message);
        fault.retry_after_s = Some(retry_after_s);
        fault
    }

    /// 429: the estimated wait exceeds the limit.
    pub fn overdue(message: impl Into<String>, retry_after_s: u32) -> Fault {
        Fault { code: Some("wait_too_long"), ..Fault::busy(message, retry_after_s) }
    }

    /// 429: the API key has reached one of its limits.
    pub fn key_limit(message: impl Into<String>, retry_after_s: u32) -> Fault {
        let mut fault = Fault::new(429, "rate_limit_error", Some("rate_limit_exceeded"), message);
        fault.retry_after_s = Some(retry_after_s);
        fault
    }

    /// 500: an error of the server.
    pub fn internal(message: impl Into<String>) -> Fault {
        Fault::new(500, "server_error", Some("internal_error"), message)
    }

    /// 503: the model is loading, or the server is shutting down.
    pub fn unavailable(code: &'static str, message: impl Into<String>, retry_after_s: u32) -> Fault {
        let mut fault = Fault::new(503, "server_error", Some(code), message);
        fault.retry_after_s = Some(retry_after_s);
        fault
    }

    /// The body of the error response.
    pub fn json(&self) -> String {
        let error = ErrorObject {
            message: &self.message,
            r#type: self.kind,
            param: self.param.as_deref(),
            code: self.code,
        };
        serde_json::to_string(&ErrorBody { error }).expect("strings only, which serialize")
    }
}

/// The first 80 characters of a client's text, so that an error never echoes a whole body.
pub(crate) fn shorten(text: &str) -> String {
    const KEPT: usize = 80;
    match text.char_indices().nth(KEPT) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
    }
}

/// A client's text for an error message: in double quotes, escaped as in JSON, at most 80 characters. Control
/// characters are escaped too, including those above U+007F, so that a terminal that shows a log does not obey them.
pub fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in shorten(text).chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_openai_shape() {
        let fault = Fault::field("n", "n is 99; it must be between 1 and 16");
        assert_eq!(
            fault.json(),
            r#"{"error":{"message":"n is 99; it must be between 1 and 16","type":"invalid_request_error","param":"n","code":"invalid_value"}}"#
        );
        let busy: serde_json::Value = serde_json::from_str(&Fault::busy("full", 3).json()).unwrap();
        assert_eq!(busy["error"]["param"], serde_json::Value::Null);
    }

    #[test]
    fn long_names_are_cut() {
        let fault = Fault::no_model(&"é".repeat(5_000), &["tiny".into()]);
        assert!(fault.message.len() < 400, "{}", fault.message.len());
        let served: Vec<String> = (0..300).map(|at| format!("m{at}")).collect();
        let fault = Fault::no_model("x", &served);
        assert!(fault.message.ends_with("m14, m15 and 284 more"), "{}", fault.message);
    }
}
