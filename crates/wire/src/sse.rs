//! Encoding of server-sent events (WHATWG HTML, "Server-sent events").

use serde::Serialize;

use crate::error::Fault;

/// The last event of an OpenAI stream.
pub const DONE: &str = "data: [DONE]\n\n";
/// A comment that keeps proxies from closing a silent stream.
pub const PING: &str = ": ping\n\n";

/// An event with JSON data. JSON text has no newline, so one `data:` line holds it.
pub fn data<T: Serialize>(chunk: &T) -> String {
    let json = serde_json::to_string(chunk).expect("chunks have string keys, which serialize");
    format!("data: {json}\n\n")
}

/// A named event with JSON data.
pub fn named<T: Serialize>(name: &str, chunk: &T) -> String {
    format!("event: {name}\n{}", data(chunk))
}

/// An error event, for faults after the headers were sent.
pub fn fault(fault: &Fault) -> String {
    format!("data: {}\n\n", fault.json())
}
