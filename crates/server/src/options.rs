//! What a server is told; every default is a bound.

use std::time::Duration;

/// Bounds and secrets of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Connections, keys, heads and bodies.
    pub http: httpd::Options,
    /// What is let in, and what the machine costs.
    pub service: service::Options,
    /// Whether the page is served at `/`.
    pub page: bool,
    /// Whether the metrics are told under llama-server's names too.
    pub metrics_llamacpp: bool,
    /// Silence after which a stream gets a comment.
    pub ping: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            http: httpd::Options::default(),
            service: service::Options::default(),
            page: true,
            metrics_llamacpp: false,
            ping: Duration::from_secs(15),
        }
    }
}
