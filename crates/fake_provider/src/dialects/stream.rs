//! The events of a stream.

use bytes::Bytes;
use serde_json::Value;

/// A stream, whose events are written when they are sent: streams of many tokens take no memory.
pub(crate) trait Events: Send + Sync {
    /// What comes before the first token.
    fn before(&self) -> Vec<Bytes>;

    /// The number of events with tokens.
    fn count(&self) -> usize;

    /// An event with a token, or with all of them where the dialect does not cut a call of a tool.
    fn token(&self, index: usize) -> Bytes;

    /// What comes after the last token.
    fn after(&self) -> Vec<Bytes>;

    /// The last events of `after` without which a stream is not whole: their number.
    fn closing(&self) -> usize;
}

/// An event with data alone.
pub(crate) fn data(value: &Value) -> Bytes {
    Bytes::from(format!("data: {value}\n\n"))
}

/// An event with a name, which is its data's `type`.
pub(crate) fn named(value: &Value) -> Bytes {
    Bytes::from(format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or("message")))
}
