//! An invented server whose answers depend on the request alone, and folders with inputs.

use batch::{
    AskError, BoxFuture, Cancel, Error, Input, Options, Progress, Reply, Report, Runner, Streams, Watcher,
};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the server does with a request, by the text of its prompt and the number of the attempt.
type Whim = dyn Fn(&str, u64) -> Option<Result<Reply, AskError>> + Send + Sync;

/// An invented server.
pub(crate) struct Fake {
    /// Attempts by prompt.
    pub(crate) asked: Mutex<HashMap<String, u64>>,
    /// Answers that were given.
    pub(crate) answered: AtomicU64,
    /// Prompts in the order in which they came.
    pub(crate) order: Mutex<Vec<String>>,
    whim: Box<Whim>,
    pause: Duration,
    remembers: bool,
}

impl Fake {
    pub(crate) fn new() -> Arc<Fake> {
        Fake::with(|_, _| None)
    }

    pub(crate) fn with(
        whim: impl Fn(&str, u64) -> Option<Result<Reply, AskError>> + Send + Sync + 'static,
    ) -> Arc<Fake> {
        Fake::slow(Duration::ZERO, whim)
    }

    pub(crate) fn slow(
        pause: Duration,
        whim: impl Fn(&str, u64) -> Option<Result<Reply, AskError>> + Send + Sync + 'static,
    ) -> Arc<Fake> {
        Arc::new(Fake {
            asked: Mutex::default(),
            answered: AtomicU64::new(0),
            order: Mutex::default(),
            whim: Box::new(whim),
            pause,
            remembers: true,
        })
    }

    /// A server that keeps no list of what it was asked.
    pub(crate) fn forgetful() -> Arc<Fake> {
        let mut fake = Fake::new();
        Arc::get_mut(&mut fake).unwrap().remembers = false;
        fake
    }

    /// Notes a request; the number of the attempt.
    fn note(&self, prompt: &str) -> u64 {
        if !self.remembers {
            return 1;
        }
        self.order.lock().unwrap().push(prompt.to_owned());
        let mut asked = self.asked.lock().unwrap();
        let attempt = asked.entry(prompt.to_owned()).or_default();
        *attempt += 1;
        *attempt
    }

    pub(crate) fn attempts(&self) -> u64 {
        self.asked.lock().unwrap().values().sum()
    }
}

pub(crate) fn status(status: u16, message: &str) -> Option<Result<Reply, AskError>> {
    let body = json!({"error": {"message": message}}).to_string().into_bytes();
    Some(Ok(Reply { status, body, retry_after: None }))
}

pub(crate) fn broken() -> Option<Result<Reply, AskError>> {
    Some(Err(AskError { message: "connection refused".to_owned(), retry_after: None, transient: true }))
}

/// The text of a prompt, whichever field it is in.
fn prompt(body: &Value) -> String {
    let message =
        body["messages"].as_array().and_then(|messages| messages.last()).map(|last| &last["content"]);
    let text = message.or(body.get("prompt")).or(body.get("input")).cloned().unwrap_or_default();
    text.as_str().map_or_else(|| text.to_string(), str::to_owned)
}

/// The answer to a prompt: the same bytes each time but for what servers never repeat.
fn answer(path: &str, body: &Value, serial: u64) -> Value {
    let text = format!("{} [{}]", prompt(body).to_uppercase(), body["seed"]);
    let details = json!({"cached_tokens": serial % 7});
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13, "prompt_tokens_details": details});
    let head = json!({"id": format!("chatcmpl-{serial}"), "created": serial, "model": "m", "usage": usage});
    let mut answer = head;
    match path {
        "/v1/embeddings" => answer["data"] = json!([{"index": 0, "embedding": [text.len(), 0.5]}]),
        "/v1/completions" => answer["choices"] = json!([{"text": text, "finish_reason": "stop"}]),
        _ => {
            let message = json!({"role": "assistant", "content": text});
            answer["choices"] = json!([{"index": 0, "message": message, "finish_reason": "stop"}]);
        }
    }
    answer
}

impl Runner for Fake {
    fn ask<'a>(&'a self, path: &'a str, body: Vec<u8>) -> BoxFuture<'a, Result<Reply, AskError>> {
        Box::pin(async move {
            let body: Value = serde_json::from_slice(&body).unwrap();
            let prompt = prompt(&body);
            let attempt = self.note(&prompt);
            if self.pause > Duration::ZERO {
                tokio::time::sleep(self.pause).await;
            } else {
                tokio::task::yield_now().await;
            }
            if let Some(whim) = (self.whim)(&prompt, attempt) {
                return whim;
            }
            let serial = self.answered.fetch_add(1, Ordering::Relaxed);
            let body = answer(path, &body, serial).to_string().into_bytes();
            Ok(Reply { status: 200, body, retry_after: None })
        })
    }

    fn count<'a>(&'a self, _: &'a str, bodies: Vec<Vec<u8>>) -> BoxFuture<'a, Option<Vec<u64>>> {
        Box::pin(async move { Some(vec![5; bodies.len()]) })
    }
}

/// A folder with an input, in which runs are made.
pub(crate) struct Folder {
    pub(crate) dir: tempfile::TempDir,
    input: PathBuf,
}

impl Folder {
    pub(crate) fn new(name: &str, input: impl AsRef<[u8]>) -> Folder {
        // In memory where there is such a place: hundreds of runs wait for the disk otherwise.
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let dir = tempfile::tempdir_in(parent).unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, input).unwrap();
        Folder { dir, input: path }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn options(&self, output: &str) -> Options {
        let mut options = Options::new(Input::File(self.input.clone()), Some(self.path(output)));
        options.first_pause = Duration::from_millis(1);
        options
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn rows(&self, name: &str) -> Vec<Value> {
        self.read(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The names of the files in it, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        names(self.dir.path())
    }
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = std::fs::read_dir(dir).unwrap().map(name).collect();
    names.sort();
    names
}

pub(crate) fn quiet() -> Watcher {
    Arc::new(|_: &Progress| {})
}

pub(crate) async fn run(options: Options, runner: &Arc<Fake>) -> Result<Report, Error> {
    batch::run(options, runner.clone(), Streams::default(), quiet(), Cancel::default()).await
}

/// A line of a batch.
pub(crate) fn line(id: &str, prompt: &str) -> String {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": prompt}], "temperature": 0});
    json!({"custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body}).to_string() + "\n"
}

/// Lines with different prompts.
pub(crate) fn lines(count: usize) -> String {
    (0..count).map(|number| line(&format!("id-{number}"), &format!("prompt {number}"))).collect()
}
