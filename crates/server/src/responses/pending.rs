//! The object of a response that has no answer.

use serde_json::{Value, json};
use wire::{Fault, ResponsesRequest};

use super::writer::{Facts, Object, fields_text};

/// A response before its answer, or without one.
pub(crate) struct Pending<'a> {
    pub(crate) id: &'a str,
    /// Unix seconds.
    pub(crate) created: u64,
    /// The request's body.
    pub(crate) body: &'a [u8],
    pub(crate) status: &'static str,
    /// Code and message.
    pub(crate) error: Option<(&'a str, &'a str)>,
}

/// The object of a response that is computed in the background, as JSON.
pub(crate) fn pending(pending: &Pending<'_>) -> Result<String, Fault> {
    let request = ResponsesRequest::parse(pending.body)?;
    let model = request.chat.get("model").and_then(Value::as_str).unwrap_or_default().to_owned();
    let object = Object {
        id: pending.id.to_owned(),
        created: pending.created,
        model,
        background: true,
        store: true,
        repeated: fields_text(&request.repeated),
        tools: request.tools,
    };
    let error =
        pending.error.map_or(Value::Null, |(code, message)| json!({"code": code, "message": message}));
    Ok(object.text(pending.status, &Facts::with_error(error)).json)
}
