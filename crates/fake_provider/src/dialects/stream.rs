//! The events of a stream.

use bytes::Bytes;
use serde_json::Value;

/// A stream before it is sent: what comes before the first token, one event a token, and what comes after the last.
pub(crate) struct Events {
    pub(crate) before: Vec<Bytes>,
    pub(crate) tokens: Vec<Bytes>,
    pub(crate) after: Vec<Bytes>,
    /// The last events without which a stream is not whole, already part of `after`: their number.
    pub(crate) closing: usize,
}

/// An event with data alone.
pub(crate) fn data(value: &Value) -> Bytes {
    Bytes::from(format!("data: {value}\n\n"))
}

/// An event with a name, which is its data's `type`.
pub(crate) fn named(value: &Value) -> Bytes {
    Bytes::from(format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or("message")))
}
