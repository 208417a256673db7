//! A server without a socket: its routes, a store in a folder, and an executor whose answers follow from the requests.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use axum::response::Response;
use httpd::{Edge, Site};
use inference::{Client, RequestContext};
use job_server::{Checked, Executor, Jobs, Options, Ran, Work};
use job_store::{SqliteStore, StoreLimits};
use jobs::Usage;
use serde_json::{Value, json};
use tower::ServiceExt;
use wire::Fault;

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const CHAT: &str = "/v1/chat/completions";

/// Answers requests. `fail` is the status of a request that fails, `ms` its time.
pub(crate) struct Fake;

impl Executor for Fake {
    fn endpoints(&self) -> Vec<&'static str> {
        vec![CHAT, "/v1/completions", "/v1/messages", "/v1/embeddings"]
    }

    fn check(&self, _endpoint: &str, body: &[u8], _key: &str) -> Result<Checked, Fault> {
        let mut value = wire::json::read(body)?;
        if value["stream"] == true {
            return Err(Fault::field("stream", "stream must be false"));
        }
        if value["temperature"].is_string() {
            return Err(Fault::field("temperature", "temperature must be a number"));
        }
        let model = value["model"].as_str().unwrap_or_default().to_owned();
        if model == "missing" {
            return Err(Fault::no_model(&model, &[]));
        }
        if value.get("seed").is_none() {
            value["seed"] = 7.into();
        }
        Ok(Checked {
            model,
            body: value.to_string().into_bytes(),
            output_limit: value["max_tokens"].as_u64(),
        })
    }

    fn run<'a>(&'a self, work: Work) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        Box::pin(async move {
            let value: Value = serde_json::from_slice(&work.body).unwrap();
            tokio::time::sleep(Duration::from_millis(value["ms"].as_u64().unwrap_or(0))).await;
            let usage = Usage { input_tokens: 10, output_tokens: 2, ..Usage::default() };
            let fault = self.check(&work.job.endpoint, &work.body, "").err();
            let failed = value["fail"].as_u64().and_then(|status| u16::try_from(status).ok());
            let (status, body) = match (fault, failed) {
                (Some(fault), _) => (fault.status, fault.json()),
                (None, Some(status)) => (status, Fault::field("fail", "it was to fail").json()),
                (None, None) => (200, answer(&work.job.endpoint, &value).to_string()),
            };
            Ran { status, body: body.into_bytes(), usage, cost_micros: Some(5), retry_after: None }
        })
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn parallel(&self) -> usize {
        4
    }

    fn stuck(&self) -> Option<Duration> {
        None
    }

    fn fingerprint(&self, _model: &str) -> Option<String> {
        None
    }

    fn expected_seconds(&self, queued_jobs: u64, _output_limit: Option<u64>) -> Option<f64> {
        Some(queued_jobs as f64 + 2.0)
    }
}

fn answer(endpoint: &str, body: &Value) -> Value {
    let text = format!("an answer to {}", body["prompt"].as_str().unwrap_or("it"));
    match endpoint {
        "/v1/messages" => {
            json!({"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"],
            "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": null,
            "usage": {"input_tokens": 10, "output_tokens": 2}})
        }
        "/v1/completions" => json!({"object": "text_completion", "choices": [{"index": 0, "text": text}]}),
        _ => json!({"object": "chat.completion", "choices": [{"index": 0,
            "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 2}}),
    }
}

struct AnySite;

impl Site for AnySite {
    fn label(&self, _path: &str) -> Option<&'static str> {
        None
    }

    fn is_open(&self, _method: &Method, _path: &str) -> bool {
        true
    }

    fn fault(&self, _path: &str, fault: &Fault) -> Response {
        httpd::respond(fault)
    }
}

/// A server and its folder.
pub(crate) struct Server {
    pub(crate) jobs: Arc<Jobs>,
    router: Router,
    _folder: tempfile::TempDir,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) async fn of(response: Response) -> Answer {
        let (head, body) = response.into_parts();
        let body = to_bytes(body, 64 << 20).await.unwrap().to_vec();
        Answer { status: head.status.as_u16(), headers: head.headers, body }
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("{error}: {} {}", self.status, String::from_utf8_lossy(&self.body))
        })
    }

    /// The JSON of an answer that must have this status.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The JSON of each line.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.body).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A request to be.
pub(crate) struct Ask<'a> {
    server: &'a Server,
    method: Method,
    path: String,
    key: &'a str,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl<'a> Ask<'a> {
    pub(crate) fn key(self, key: &'a str) -> Ask<'a> {
        Ask { key, ..self }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Ask<'a> {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn bytes(self, media: &str, body: impl Into<Vec<u8>>) -> Ask<'a> {
        Ask { body: body.into(), ..self.header("content-type", media) }
    }

    pub(crate) fn json(self, body: &Value) -> Ask<'a> {
        self.bytes("application/json", body.to_string())
    }

    pub(crate) async fn response(self) -> Response {
        let mut request = Request::builder().method(self.method).uri(self.path);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if !self.body.is_empty() {
            request = request.header("content-length", self.body.len());
        }
        let mut request = request.body(Body::from(self.body)).unwrap();
        let context = RequestContext::new(None, "req".into(), "POST", None, None, None);
        if !self.key.is_empty() {
            context.identify(Client(1), self.key);
        }
        request.extensions_mut().insert(context);
        self.server.router.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn send(self) -> Answer {
        Answer::of(self.response().await).await
    }
}

impl Server {
    /// A server that accepts, and runs nothing.
    pub(crate) fn new() -> Server {
        Server::with(Options::default(), StoreLimits::default())
    }

    pub(crate) fn with(options: Options, limits: StoreLimits) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path(), limits).unwrap();
        let metrics = Arc::new(events::Metrics::new("test"));
        let edge = Arc::new(Edge::new(httpd::Options::default(), metrics, Box::new(AnySite)));
        let jobs = Arc::new(Jobs::new(Arc::new(store), Arc::new(Fake), edge, options));
        let mut router: Router<Arc<Jobs>> = Router::new();
        for route in wire::routes::ROUTES {
            if let Some(handler) = job_server::faces::handler(route.id) {
                router = router.route(route.path, handler);
            }
        }
        Server { router: router.with_state(jobs.clone()), jobs, _folder: folder }
    }

    /// A server that runs what it accepts.
    pub(crate) fn running() -> Server {
        Server::new().run()
    }

    pub(crate) fn run(self) -> Server {
        tokio::spawn(job_server::run(self.jobs.clone(), std::future::pending()));
        self
    }

    fn ask(&self, method: Method, path: impl Into<String>) -> Ask<'_> {
        Ask { server: self, method, path: path.into(), key: "", headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn get(&self, path: impl Into<String>) -> Ask<'_> {
        self.ask(Method::GET, path)
    }

    pub(crate) fn post(&self, path: impl Into<String>) -> Ask<'_> {
        self.ask(Method::POST, path)
    }

    pub(crate) fn delete(&self, path: impl Into<String>) -> Ask<'_> {
        self.ask(Method::DELETE, path)
    }

    /// The id of a new job.
    pub(crate) async fn job(&self, body: Value) -> String {
        let answer = self.post("/v1/jobs").json(&json!({"endpoint": CHAT, "body": body})).send().await;
        answer.expect(202)["id"].as_str().unwrap().to_owned()
    }

    /// The job once it has ended.
    pub(crate) async fn ended(&self, id: &str) -> Value {
        let job = self.get(format!("/v1/jobs/{id}?wait=60")).send().await.expect(200);
        assert!(job["finished_at"].is_number(), "{job}");
        job
    }

    /// What is at a path once `ready`.
    pub(crate) async fn until(&self, path: &str, ready: impl Fn(&Value) -> bool) -> Value {
        let look = async {
            loop {
                let seen = self.get(path).send().await.expect(200);
                if ready(&seen) {
                    return seen;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, look).await.unwrap_or_else(|_| panic!("{path} does not become ready"))
    }

    /// The id of a file with these bytes.
    pub(crate) async fn file(&self, bytes: &[u8]) -> String {
        let form = form(&[("purpose", None, b"batch"), ("file", Some("in.jsonl"), bytes)]);
        let answer = self.post("/v1/files").bytes(FORM, form).send().await;
        answer.expect(200)["id"].as_str().unwrap().to_owned()
    }
}

pub(crate) const FORM: &str = "multipart/form-data; boundary=XyZ";

/// A form with these parts: name, name of a file, bytes.
pub(crate) fn form(parts: &[(&str, Option<&str>, &[u8])]) -> Vec<u8> {
    let mut form = Vec::new();
    for (name, filename, bytes) in parts {
        form.extend_from_slice(
            format!("--XyZ\r\nContent-Disposition: form-data; name=\"{name}\"").as_bytes(),
        );
        if let Some(filename) = filename {
            form.extend_from_slice(
                format!("; filename=\"{filename}\"\r\nContent-Type: text/plain").as_bytes(),
            );
        }
        form.extend_from_slice(b"\r\n\r\n");
        form.extend_from_slice(bytes);
        form.extend_from_slice(b"\r\n");
    }
    form.extend_from_slice(b"--XyZ--\r\n");
    form
}

/// The error of an answer in OpenAI's shape.
#[track_caller]
pub(crate) fn refused(answer: &Answer, status: u16) -> Value {
    let error = answer.expect(status)["error"].clone();
    assert!(error["message"].is_string() && error["type"].is_string(), "{error}");
    assert!(StatusCode::from_u16(status).unwrap().is_client_error() || status == 507);
    error
}
