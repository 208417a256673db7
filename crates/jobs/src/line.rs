//! Lines of an OpenAI batch: `{"custom_id": …, "method": "POST", "url": …, "body": {…}}`, one a line.
//!
//! A line that breaks the rules of the file makes the whole batch fail, with a [`FileError`]. A request that is only not
//! possible in a batch (`"stream": true`) is an error of that line: [`Line::fault`].

use crate::batch::FileError;
use crate::job::JobError;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The longest `custom_id`, in bytes.
pub const MAX_CUSTOM_ID: usize = 512;

/// A line as its client wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its place in the file, from 1; empty lines are counted.
    pub number: u64,
    /// The client's name for it.
    pub custom_id: String,
    /// The path that it asks.
    pub url: String,
    /// `POST`.
    pub method: String,
    /// The request's body: the bytes of the file.
    pub body: Vec<u8>,
    /// The model that the body names.
    pub model: Option<String>,
    /// Why the request is answered with an error at once.
    pub fault: Option<JobError>,
}

/// A line's parts, before they are checked.
#[derive(Deserialize)]
struct Parts<'a> {
    custom_id: Option<Value>,
    method: Option<Value>,
    url: Option<Value>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

/// What is looked at of a body.
#[derive(Deserialize)]
struct Glance {
    model: Option<Value>,
    stream: Option<Value>,
}

/// Parses one line, without the end of the line. With an `endpoint`, the line must ask for that one.
///
/// # Errors
/// What is wrong with the line, with its number.
pub fn parse_line(number: u64, bytes: &[u8], endpoint: Option<&str>) -> Result<Line, FileError> {
    let error = |code: &str, param: Option<&str>, message: String| line_error(number, code, param, message);
    let text = std::str::from_utf8(bytes)
        .map_err(|_| error("invalid_json_line", None, format!("Line {number} is not UTF-8.")))?;
    let parts: Parts<'_> = serde_json::from_str(text).map_err(|fault| {
        error("invalid_json_line", None, format!("Line {number} is not a JSON object of a request: {fault}."))
    })?;
    let custom_id = text_of(number, "custom_id", parts.custom_id)?;
    if custom_id.is_empty() || custom_id.len() > MAX_CUSTOM_ID {
        let message = format!(
            "The custom_id of line {number} has {} bytes; it must have 1 to {MAX_CUSTOM_ID}.",
            custom_id.len()
        );
        return Err(error("invalid_custom_id", Some("custom_id"), message));
    }
    let method = text_of(number, "method", parts.method)?;
    if method != "POST" {
        let message = format!("The method of line {number} is {}; it must be POST.", quoted(&method));
        return Err(error("invalid_method", Some("method"), message));
    }
    let url = text_of(number, "url", parts.url)?;
    if let Some(endpoint) = endpoint.filter(|endpoint| *endpoint != url) {
        let message = format!("The url of line {number} is {}; the batch is for {endpoint}.", quoted(&url));
        return Err(error("url_mismatch", Some("url"), message));
    }
    let body = parts.body.ok_or_else(|| missing(number, "body"))?.get();
    let (model, streams) = glance(number, body)?;
    let fault = streams.then(not_streamed);
    Ok(Line { number, custom_id, url, method, body: body.as_bytes().to_vec(), model, fault })
}

/// The error of a request that asks for a stream.
pub(crate) fn not_streamed() -> JobError {
    JobError {
        code: "stream_not_supported".to_owned(),
        message: "A request of a batch cannot be streamed: leave out \"stream\", or set it to false."
            .to_owned(),
        param: Some("stream".to_owned()),
    }
}

/// The model that a body names, and whether it asks for a stream.
fn glance(number: u64, body: &str) -> Result<(Option<String>, bool), FileError> {
    let error = |param: &str, message: String| line_error(number, "invalid_request", Some(param), message);
    if !body.starts_with('{') {
        return Err(error("body", format!("The body of line {number} is not a JSON object.")));
    }
    let glance: Glance = serde_json::from_str(body)
        .map_err(|fault| error("body", format!("The body of line {number} cannot be read: {fault}.")))?;
    let model = match glance.model {
        None | Some(Value::Null) => None,
        Some(Value::String(model)) => Some(model),
        Some(_) => return Err(error("model", format!("The model of line {number} is not a string."))),
    };
    Ok((model, glance.stream == Some(Value::Bool(true))))
}

fn text_of(number: u64, name: &str, value: Option<Value>) -> Result<String, FileError> {
    match value {
        None | Some(Value::Null) => Err(missing(number, name)),
        Some(Value::String(text)) => Ok(text),
        Some(_) => {
            let message = format!("The {name} of line {number} is not a string.");
            Err(line_error(number, "invalid_json_line", Some(name), message))
        }
    }
}

fn missing(number: u64, name: &str) -> FileError {
    line_error(number, "missing_required_parameter", Some(name), format!("Line {number} has no {name}."))
}

pub(crate) fn line_error(number: u64, code: &str, param: Option<&str>, message: String) -> FileError {
    FileError { code: code.to_owned(), message, line: Some(number), param: param.map(str::to_owned) }
}

/// A client's text in a message: its beginning, in quotes, without control characters.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 64;
    let shown: String = text.chars().take(SHOWN).collect();
    let dots = if shown.len() < text.len() { "…" } else { "" };
    format!("{:?}{dots}", shown)
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
