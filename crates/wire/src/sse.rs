//! Server-sent events, as far as this API uses them (WHATWG HTML, "Server-sent events").

use serde::Serialize;

use crate::error::Fault;

/// The last event of a stream.
pub const DONE: &str = "data: [DONE]\n\n";
/// A comment that keeps proxies from closing a silent stream.
pub const PING: &str = ": ping\n\n";

/// One event. JSON has no raw newline, so one `data:` line holds it.
pub fn data<T: Serialize>(chunk: &T) -> String {
    let json = serde_json::to_string(chunk).expect("chunks have string keys, which serialize");
    format!("data: {json}\n\n")
}

/// One event under a name.
pub fn named<T: Serialize>(name: &str, chunk: &T) -> String {
    format!("event: {name}\n{}", data(chunk))
}

/// An error after the headers have left.
pub fn fault(fault: &Fault) -> String {
    format!("data: {}\n\n", fault.json())
}
