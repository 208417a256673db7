//! Who runs the requests of jobs.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use jobs::{Job, Usage};
use wire::Fault;

/// A job that is to be run.
pub struct Work {
    /// The job, as it was claimed.
    pub job: Job,
    /// The body of its request.
    pub body: Vec<u8>,
    /// Token ids of the answer that an earlier attempt had; empty if none.
    pub resume: Vec<u32>,
    /// Where its progress is told.
    pub watch: Arc<Watch>,
}

/// What is told while a job runs.
#[derive(Debug, Default)]
pub struct Watch {
    inner: Mutex<Seen>,
}

/// What a [`Watch`] has seen.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    /// Tokens of the prompt, once known.
    pub prompt_tokens: Option<u64>,
    /// The answer's token ids so far, if the request can be continued from them.
    pub tokens: Vec<u32>,
}

impl Watch {
    /// The prompt's length is known.
    pub fn prompt(&self, tokens: u64) {
        self.lock().prompt_tokens = Some(tokens);
    }

    /// A token of the answer came.
    pub fn token(&self, id: u32) {
        self.lock().tokens.push(id);
    }

    /// What was seen so far.
    pub fn seen(&self) -> Seen {
        self.lock().clone()
    }

    /// Number of the answer's tokens so far.
    pub fn count(&self) -> usize {
        self.lock().tokens.len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// How an attempt ended.
#[derive(Debug, Clone)]
pub struct Ran {
    /// HTTP status of the answer.
    pub status: u16,
    /// Its body.
    pub body: Vec<u8>,
    /// Tokens that it took.
    pub usage: Usage,
    /// What it cost, in millionths of the server's currency.
    pub cost_micros: Option<i64>,
    /// The pause that a busy executor asks for.
    pub retry_after: Option<Duration>,
}

/// A request that could be run.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The model that it names; empty for the default one.
    pub model: String,
    /// The body to be kept: the same request, with a seed where its answer depends on one, and not streamed.
    pub body: Vec<u8>,
    /// The most tokens that its answers may have, where it says so.
    pub output_limit: Option<u64>,
}

/// Runs requests of the endpoints. Dropping the future of [`Executor::run`] cancels the request within a step.
pub trait Executor: Send + Sync {
    /// Paths that can be asked for by jobs, such as `/v1/chat/completions`.
    fn endpoints(&self) -> Vec<&'static str>;

    /// Checks a request before it is accepted. `key` is the name of the API key, empty without keys.
    ///
    /// # Errors
    /// What the endpoint would answer to such a request at once.
    fn check(&self, endpoint: &str, body: &[u8], key: &str) -> Result<Checked, Fault>;

    /// Runs a request to its end.
    fn run(&self, work: Work) -> Pin<Box<dyn Future<Output = Ran> + Send>>;

    /// How many jobs may run at once.
    fn parallel(&self) -> usize;

    /// For how long the engine has had work and made no step; none while it moves.
    fn stuck(&self) -> Option<Duration>;

    /// When jobs that need so many tokens of answers would be done, in seconds from now; none if it is not known.
    fn expected_seconds(&self, queued_jobs: u64, output_limit: Option<u64>) -> Option<f64>;
}
