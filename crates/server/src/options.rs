//! What a server is told; every default is a bound.

use std::time::Duration;

use crate::{Cors, Keys};

/// Bounds and secrets of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Keys that clients must show; none lets everybody in.
    pub keys: Keys,
    /// Without keys: answer only to requests whose `Host` is a loopback name. A page in a browser can send requests
    /// to 127.0.0.1 under a name of its own (DNS rebinding); this refuses them.
    pub loopback_names_only: bool,
    /// The origins whose pages may use the server; none sends no CORS headers.
    pub cors: Option<Cors>,
    /// Whether the page is served at `/`.
    pub page: bool,
    /// Whether the metrics are told under llama-server's names too.
    pub metrics_llamacpp: bool,
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
    /// Answers in work or in the queue, all requests together.
    pub requests: usize,
    /// Answers computed at once; only for estimating waits.
    pub parallel: usize,
    /// Requests that would wait longer than this before they begin, by estimate, are refused; none lets all wait.
    pub longest_wait: Option<Duration>,
    /// Events that a stream may be behind the engine.
    pub stream_events: usize,
    /// Between the end of readiness and the end of service, for load balancers to notice.
    pub drain_notice: Duration,
    /// Silence after which a stream gets a comment.
    pub ping: Duration,
    /// What the machine costs, if that is known.
    pub price: Option<Price>,
}

/// The machine's price, and who hears of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Units of the currency an hour.
    pub per_hour: f64,
    /// The currency.
    pub currency: wire::Currency,
    /// Whether every answer's `usage` says what it cost; else those do that are asked to.
    pub in_usage: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            keys: Keys::default(),
            loopback_names_only: true,
            cors: None,
            page: true,
            metrics_llamacpp: false,
            body_bytes: wire::limits::BODY_BYTES,
            body_memory_bytes: 64 << 20,
            answer_memory_bytes: 128 << 20,
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            head_bytes: 64 << 10,
            headers: 100,
            connections: 1_024,
            requests: 72,
            parallel: 8,
            longest_wait: Some(Duration::from_secs(60)),
            stream_events: 1_024,
            drain_notice: Duration::ZERO,
            ping: Duration::from_secs(15),
            price: None,
        }
    }
}
