//! Who answers requests: an engine of this process, a server behind a URL, or a test.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A future that may be sent to another thread.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Answers requests. Dropping a future that is returned here gives the request up.
pub trait Runner: Send + Sync {
    /// Answers the request `body` of the endpoint at `path`, such as `/v1/chat/completions`. An answer with any HTTP status
    /// is an answer; an error tells that there was none.
    fn ask<'a>(&'a self, path: &'a str, body: Vec<u8>) -> BoxFuture<'a, Result<Reply, AskError>>;

    /// Tokens of the prompts of `bodies`, one number for each; `None` if they cannot be counted.
    fn count<'a>(&'a self, path: &'a str, bodies: Vec<Vec<u8>>) -> BoxFuture<'a, Option<Vec<u64>>>;
}

/// An answer with an HTTP status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The body as it came.
    pub body: Vec<u8>,
    /// How long the other side asks to wait before the next attempt (`Retry-After`).
    pub retry_after: Option<Duration>,
}

/// Why there was no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskError {
    /// A sentence for people.
    pub message: String,
    /// How long the other side asks to wait before the next attempt.
    pub retry_after: Option<Duration>,
    /// Whether another attempt may succeed, as after a broken connection.
    pub transient: bool,
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for AskError {}
