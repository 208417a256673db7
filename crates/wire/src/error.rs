//! Errors in OpenAI's shape: `{"error": {"message", "type", "param", "code"}}`, with their HTTP status.

use serde::Serialize;

/// An answer that is not a 2xx. Each constructor is one row of the table that `docs/api-reference.md` prints.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// HTTP status.
    pub status: u16,
    /// What is wrong, with the value and the limit.
    pub message: String,
    /// OpenAI's `type`.
    pub kind: &'static str,
    /// The field at fault, as a path: `messages[2].content`.
    pub param: Option<String>,
    /// A word that programs may match on.
    pub code: Option<&'static str>,
    /// Seconds after which another try makes sense (`Retry-After`).
    pub retry_after_s: Option<u32>,
}

#[derive(Serialize)]
struct Shape<'a> {
    message: &'a str,
    r#type: &'static str,
    param: Option<&'a str>,
    code: Option<&'static str>,
}

#[derive(Serialize)]
struct Body<'a> {
    error: Shape<'a>,
}

impl Fault {
    fn new(status: u16, kind: &'static str, code: Option<&'static str>, message: impl Into<String>) -> Fault {
        Fault { status, message: message.into(), kind, param: None, code, retry_after_s: None }
    }

    /// 400: a field has a value that it must not have.
    pub fn field(param: impl Into<String>, message: impl Into<String>) -> Fault {
        let mut fault = Fault::new(400, "invalid_request_error", Some("invalid_value"), message);
        fault.param = Some(param.into());
        fault
    }

    /// The same fault where the field `from` is called `to`: in `param`, and where the message begins with it.
    #[must_use]
    pub(crate) fn renamed(mut self, from: &str, to: &str) -> Fault {
        let ends = |rest: &str| rest.chars().next().is_none_or(|c| !c.is_alphanumeric() && c != '_');
        let change =
            |text: &str| text.strip_prefix(from).filter(|rest| ends(rest)).map(|rest| format!("{to}{rest}"));
        if let Some(param) = self.param.as_deref().and_then(change) {
            self.param = Some(param);
            self.message = change(&self.message).unwrap_or(self.message);
        }
        self
    }

    /// 400: a field that the endpoint needs is not there.
    pub fn missing(param: impl Into<String>) -> Fault {
        let param = param.into();
        let mut fault = Fault::field(param.clone(), format!("{param} is required"));
        fault.code = Some("missing_required_parameter");
        fault
    }

    /// 400: an option that other servers have and this one does not.
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

    /// 400: the body is wrong as a whole.
    pub fn body(message: impl Into<String>) -> Fault {
        Fault::new(400, "invalid_request_error", None, message)
    }

    /// 400: the prompt leaves no room in the context.
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

    /// 400: the prompt leaves no room in the context; it was not tokenized to its end. `counts` where the limit is not the
    /// context but what is counted at most.
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

    /// 400: the chat template refused the messages, or failed on them.
    pub fn template(message: impl Into<String>) -> Fault {
        let mut fault = Fault::field("messages", message);
        fault.code = Some("chat_template_error");
        fault
    }

    /// 401: no key, or one that is not known.
    pub fn unauthorized(message: impl Into<String>) -> Fault {
        Fault::new(401, "authentication_error", Some("invalid_api_key"), message)
    }

    /// 403: a page of an origin that may not use the server.
    pub fn origin(message: impl Into<String>) -> Fault {
        Fault::new(403, "permission_error", Some("origin_not_allowed"), message)
    }

    /// 415: the body is compressed in a way that is not undone here.
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

    /// 404: a response that is not kept, or not for this client.
    pub fn no_response(id: &str) -> Fault {
        let message =
            format!("there is no response {}: it was not stored, or is not kept any more", quote(id));
        let mut fault = Fault::new(404, "invalid_request_error", Some("response_not_found"), message);
        fault.param = Some("response_id".into());
        fault
    }

    /// 404: a part of the Responses API that is not built.
    pub fn no_conversations() -> Fault {
        let message = "conversations are not kept here; use previous_response_id, or send the items as input";
        Fault::new(404, "invalid_request_error", Some("not_found"), message)
    }

    /// 404: a model that this server does not have.
    pub fn no_model(name: &str, served: &[String]) -> Fault {
        let message = format!("model {} is not served here; served: {}", quote(name), served.join(", "));
        let mut fault = Fault::new(404, "invalid_request_error", Some("model_not_found"), message);
        fault.param = Some("model".into());
        fault
    }

    /// 405: the path is there, the method is not.
    pub fn method(method: &str, path: &str) -> Fault {
        let message = format!("{} does not answer {}", shorten(path), shorten(method));
        Fault::new(405, "invalid_request_error", Some("method_not_allowed"), message)
    }

    /// 408: the body did not arrive in time.
    pub fn slow_body(seconds: u64) -> Fault {
        let message = format!("the body did not arrive within {seconds} s");
        Fault::new(408, "invalid_request_error", Some("request_timeout"), message)
    }

    /// 408: the request's own time limit came first. Sent again with the same limit it would likely fail again.
    pub fn expired(message: impl Into<String>) -> Fault {
        Fault::new(408, "timeout_error", Some("time_limit_exceeded"), message)
    }

    /// 413: the body is too large.
    pub fn too_large(limit_bytes: usize) -> Fault {
        let message = format!("the body is larger than the limit of {limit_bytes} bytes");
        Fault::new(413, "invalid_request_error", Some("body_too_large"), message)
    }

    /// 413: the body has more JSON values than are parsed.
    pub fn too_many_values(values: usize, limit: usize) -> Fault {
        let message = format!(
            "the body has {values} JSON values (an object counts as {}); the limit is {limit}",
            crate::limits::VALUES_OF_AN_OBJECT
        );
        Fault::new(413, "invalid_request_error", Some("body_too_complex"), message)
    }

    /// 415: the body does not say that it is JSON.
    pub fn media_type(found: Option<&str>) -> Fault {
        let found = found.map_or("no content-type".to_owned(), |f| format!("content-type {}", quote(f)));
        let message = format!("the request has {found}; it must be application/json");
        Fault::new(415, "invalid_request_error", Some("unsupported_media_type"), message)
    }

    /// 421: a host name that does not point at a server on this machine.
    pub fn misdirected(host: &str) -> Fault {
        let message = format!(
            "Host {} is not a name of this machine's loopback; a server without an API key answers to \
             localhost only (give it a key to use other names)",
            quote(host)
        );
        Fault::new(421, "invalid_request_error", Some("misdirected_request"), message)
    }

    /// 429: no room in the queue now.
    pub fn busy(message: impl Into<String>, retry_after_s: u32) -> Fault {
        let mut fault = Fault::new(429, "rate_limit_error", Some("queue_full"), message);
        fault.retry_after_s = Some(retry_after_s);
        fault
    }

    /// 429: the queue is longer than anybody is let wait.
    pub fn overdue(message: impl Into<String>, retry_after_s: u32) -> Fault {
        Fault { code: Some("wait_too_long"), ..Fault::busy(message, retry_after_s) }
    }

    /// 429: the key has used up one of its own limits.
    pub fn key_limit(message: impl Into<String>, retry_after_s: u32) -> Fault {
        let mut fault = Fault::new(429, "rate_limit_error", Some("rate_limit_exceeded"), message);
        fault.retry_after_s = Some(retry_after_s);
        fault
    }

    /// 500: the server's own fault.
    pub fn internal(message: impl Into<String>) -> Fault {
        Fault::new(500, "server_error", Some("internal_error"), message)
    }

    /// 503: loading, or on the way out.
    pub fn unavailable(code: &'static str, message: impl Into<String>, retry_after_s: u32) -> Fault {
        let mut fault = Fault::new(503, "server_error", Some(code), message);
        fault.retry_after_s = Some(retry_after_s);
        fault
    }

    /// The body of the answer.
    pub fn json(&self) -> String {
        let error = Shape {
            message: &self.message,
            r#type: self.kind,
            param: self.param.as_deref(),
            code: self.code,
        };
        serde_json::to_string(&Body { error }).expect("strings only, which serialize")
    }
}

/// At most 80 characters of what a client sent, so that an error never echoes a whole body.
pub(crate) fn shorten(text: &str) -> String {
    const KEPT: usize = 80;
    match text.char_indices().nth(KEPT) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
    }
}

/// What a client sent as an error message shows it: in double quotes, escaped as in JSON, at most 80 characters. Control
/// characters are escaped too, those above U+007F included, so that a log shows what was sent and obeys none of it.
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
    }
}
