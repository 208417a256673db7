//! Who runs the requests of jobs.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use inference::Listener;
use jobs::{Job, Usage};
use wire::Fault;

/// A job that is to be run.
#[derive(Clone)]
pub struct Work {
    /// The job, as it was claimed.
    pub job: Job,
    /// The body of its request.
    pub body: Vec<u8>,
    /// What an earlier attempt had of the answer.
    pub resume: Option<Begun>,
    /// Where its progress is told.
    pub watch: Arc<Watch>,
}

/// The beginning of an answer, and what it depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The [`Executor::fingerprint`] where it was made. Elsewhere the answer begins anew.
    pub fingerprint: String,
    /// Its token ids.
    pub tokens: Vec<u32>,
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
    /// The first answer's token ids so far.
    pub tokens: Vec<u32>,
    /// The first answer's text so far, without reasoning.
    pub text: String,
    /// When the first token came.
    pub first_token: Option<Instant>,
}

/// Bytes of an answer's text that are kept for those who watch.
const MAX_TEXT_BYTES: usize = 1 << 20;

impl Watch {
    /// What was seen so far.
    pub fn seen(&self) -> Seen {
        self.lock().clone()
    }

    /// Number of the answer's tokens so far.
    pub fn count(&self) -> usize {
        self.lock().tokens.len()
    }

    /// The answer's text from a byte on.
    pub fn text_after(&self, from: usize) -> String {
        self.lock().text.get(from..).unwrap_or_default().to_owned()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for Watch {
    fn prompt(&self, tokens: usize) {
        self.lock().prompt_tokens = Some(tokens as u64);
    }

    fn token(&self, choice: usize, id: u32) {
        if choice == 0 {
            let mut seen = self.lock();
            seen.first_token.get_or_insert_with(Instant::now);
            seen.tokens.push(id);
        }
    }

    fn text(&self, choice: usize, text: &str) {
        if choice == 0 {
            let mut seen = self.lock();
            if seen.text.len() < MAX_TEXT_BYTES {
                seen.text.push_str(text);
            }
        }
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
    fn run<'a>(&'a self, work: Work) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>>;

    /// Whether requests can be run now; false while a server starts.
    fn is_ready(&self) -> bool;

    /// How many jobs may run at once.
    fn parallel(&self) -> usize;

    /// For how long the engine has had work and made no step; none while it moves.
    fn stuck(&self) -> Option<Duration>;

    /// What an answer of this model depends on beside its request: files, instruction tier, version. An answer is continued
    /// from its tokens only where this is the same; none if answers cannot be continued.
    fn fingerprint(&self, model: &str) -> Option<String>;

    /// When jobs that need so many tokens of answers would be done, in seconds from now; none if it is not known.
    fn expected_seconds(&self, queued_jobs: u64, output_limit: Option<u64>) -> Option<f64>;
}
