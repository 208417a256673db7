//! Bounds of connections, heads and bodies; every default is a bound.

use std::time::Duration;

use crate::auth::Keys;
use crate::cors::Cors;

/// Bounds and secrets of the HTTP side of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Keys that clients must show; none lets everybody in.
    pub keys: Keys,
    /// Without keys: answer only to requests whose `Host` is a loopback name. A page in a browser can send requests
    /// to 127.0.0.1 under a name of its own (DNS rebinding); this refuses them.
    pub loopback_names_only: bool,
    /// The origins whose pages may use the server; none sends no CORS headers.
    pub cors: Option<Cors>,
    /// Bytes of one body.
    pub body_bytes: usize,
    /// Bytes of all bodies that are being read, together.
    pub body_memory_bytes: usize,
    /// Bytes of whole answers that wait for their readers, together; one client may have half of them.
    pub answer_memory_bytes: usize,
    /// For the head of a request, and for an idle connection.
    pub head_timeout: Duration,
    /// For the body of a request.
    pub body_timeout: Duration,
    /// For a client to take any byte of an answer, and more of it for what it takes at 64 KiB a second.
    pub write_timeout: Duration,
    /// Bytes of the head of a request.
    pub head_bytes: usize,
    /// Lines of the head of a request.
    pub headers: usize,
    /// Open connections.
    pub connections: usize,
    /// Between the end of readiness and the end of service, for load balancers to notice.
    pub drain_notice: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            keys: Keys::default(),
            loopback_names_only: true,
            cors: None,
            body_bytes: wire::limits::BODY_BYTES,
            body_memory_bytes: 64 << 20,
            answer_memory_bytes: 128 << 20,
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            head_bytes: 64 << 10,
            headers: 100,
            connections: 1_024,
            drain_notice: Duration::ZERO,
        }
    }
}
