//! A server on a real socket over an engine with a fake model, and a client that speaks plain HTTP.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod encoder;
pub(crate) mod script;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::fake::{Around, FakeModel, FakeVocabulary};
use engine::{Engine, Forward, Limits, Rows, Vocabulary};
use serde_json::{Map, Value, json};
use server::{LoadedModel, Options, Server, TextPipeline};
use text::Prompt;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub(crate) const VOCAB: usize = 27;
pub(crate) const CONTEXT: usize = 96;

/// Letters are tokens; a conversation is `role:content` lines, squeezed to letters.
pub(crate) struct Letters;

impl TextPipeline for Letters {
    fn render(
        &self,
        messages: &[Value],
        tools: Option<&[Value]>,
        generate: bool,
        arguments: &Map<String, Value>,
    ) -> Result<Prompt, String> {
        let mut out = String::new();
        for message in messages {
            let content = message["content"].as_str().unwrap_or_default();
            match content {
                "refuse" => return Err("chat template, line 7: roles must alternate".into()),
                "panic" => panic!("a template that panics"),
                _ => {
                    // As `text::ChatTemplate` does it for templates that do not know the newer name.
                    let role = message["role"].as_str().unwrap_or_default().replace("developer", "system");
                    out.push_str(&format!("{role}{content}"));
                }
            }
        }
        if let Some(tools) = tools {
            out.push_str(&format!("tools{}", tools[0]["function"]["name"].as_str().unwrap_or_default()));
        }
        if let Some(word) = arguments.get("word").and_then(Value::as_str) {
            out.push_str(word);
        }
        if generate {
            out.push_str("assistant");
        }
        Ok(out.into())
    }

    fn encode_prompt(&self, prompt: &Prompt) -> Result<Vec<u32>, String> {
        self.encode(&prompt.text, false)
    }

    fn encode(&self, text: &str, wrapped: bool) -> Result<Vec<u32>, String> {
        let start = wrapped.then_some(26);
        let letters = text.bytes().filter(u8::is_ascii_lowercase).map(|b| u32::from(b - b'a') + 1);
        Ok(start.into_iter().chain(letters).collect())
    }

    fn decode(&self, tokens: &[u32]) -> String {
        tokens.iter().flat_map(|t| self.bytes(*t)).map(char::from).collect()
    }

    fn bytes(&self, token: u32) -> Vec<u8> {
        FakeVocabulary.bytes(token)
    }

    fn is_end(&self, token: u32) -> bool {
        token == 0
    }
}

/// The fake model at a leisurely pace.
pub(crate) fn paced(model: FakeModel, pace: Duration) -> impl Forward + 'static {
    Around::new(model, move |model: &mut FakeModel, rows: &Rows<'_>| {
        std::thread::sleep(pace);
        model.forward(rows).map(<[f32]>::to_vec)
    })
}

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) server: Server,
    pub(crate) engine: Option<engine::Handle>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<usize>>,
}

pub(crate) fn options() -> Options {
    Options { ping: Duration::from_millis(200), ..Options::default() }
}

/// A server that is ready, over a model that takes `pace` for a step.
pub(crate) fn ready(options: Options, pace: Duration) -> Running {
    ready_with(options, paced(FakeModel::new(VOCAB, CONTEXT, 64, 32), pace), Limits::default())
}

/// As [`ready`], for another language.
pub(crate) fn ready_speaking(options: Options, pace: Duration, language: Arc<dyn TextPipeline>) -> Running {
    ready_all(options, paced(FakeModel::new(VOCAB, CONTEXT, 64, 32), pace), Limits::default(), language)
}

pub(crate) fn ready_with(options: Options, forward: impl Forward + 'static, limits: Limits) -> Running {
    ready_all(options, forward, limits, Arc::new(Letters))
}

/// As [`ready`], for a server that keeps jobs in a folder and continues answers of others like it.
pub(crate) fn keeping_jobs(options: Options, pace: Duration, folder: &Path) -> Running {
    let mut running = started(options, Duration::from_secs(5), Some(folder.to_owned()));
    let forward = paced(FakeModel::new(VOCAB, CONTEXT, 64, 32), pace);
    let watch = running.server.watch("tiny");
    let engine = Engine::start_with(forward, Arc::new(FakeVocabulary), Limits::default(), watch).unwrap();
    let model = LoadedModel::new(vec!["tiny".to_owned()], engine.clone(), Arc::new(Letters));
    running.server.ready(model.with_fingerprint("the fake model"), Instant::now());
    running.engine = Some(engine);
    running
}

fn ready_all(
    options: Options,
    forward: impl Forward + 'static,
    limits: Limits,
    language: Arc<dyn TextPipeline>,
) -> Running {
    let mut running = unready(options, Duration::from_secs(5));
    let watch = running.server.watch("tiny");
    let engine = Engine::start_with(forward, Arc::new(FakeVocabulary), limits, watch).unwrap();
    let names = vec!["tiny".to_owned(), "org/alias".to_owned()];
    running.server.ready(LoadedModel::new(names, engine.clone(), language), Instant::now());
    running.engine = Some(engine);
    running
}

/// A server whose model is still loading.
pub(crate) fn unready(options: Options, drain: Duration) -> Running {
    started(options, drain, None)
}

fn started(options: Options, drain: Duration, jobs: Option<PathBuf>) -> Running {
    let server = Server::new(options);
    let (stop, stopped) = oneshot::channel::<()>();
    let (tell, told) = std::sync::mpsc::channel();
    let inside = server.clone();
    let thread = std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let (stopping, ended) = tokio::sync::watch::channel(false);
            let running = jobs.map(|folder| keep_jobs(&inside, &folder, ended));
            tell.send(listener.local_addr().unwrap()).unwrap();
            let stop = async move {
                let _ = stopped.await;
                stopping.send_replace(true);
            };
            let cut = inside.run(listener, stop, drain).await;
            if let Some(running) = running {
                running.await.unwrap();
            }
            cut
        })
    });
    let address = told.recv().unwrap();
    Running { address, server, engine: None, stop: Some(stop), thread: Some(thread) }
}

/// Runs jobs that are kept in a folder.
fn keep_jobs(
    server: &Server,
    folder: &Path,
    mut ended: tokio::sync::watch::Receiver<bool>,
) -> tokio::task::JoinHandle<()> {
    let store = job_store::SqliteStore::open(folder, job_store::StoreLimits::default()).unwrap();
    let jobs = server.take_jobs(Arc::new(store), job_server::Options::default());
    tokio::spawn(async move {
        let stop = async {
            let _ = ended.wait_for(|ended| *ended).await;
            jobs.close();
        };
        job_server::run(jobs.clone(), stop).await;
    })
}

impl Running {
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// One request on its own connection, read to the end.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut stream = self.connect();
        stream.write_all(&head(method, path, headers, body.len())).unwrap();
        // The server may answer before it has read all of a body that it refuses.
        let _ = stream.write_all(body);
        Answer::read(&mut stream)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[("content-type", "application/json")], body.to_string().as_bytes())
    }

    pub(crate) fn chat(&self, extra: Value) -> Answer {
        self.post("/v1/chat/completions", &chat_body(extra))
    }

    pub(crate) fn completion(&self, extra: Value) -> Answer {
        let mut body = json!({"model": "tiny", "prompt": "hello", "max_tokens": 12, "temperature": 0});
        merge(&mut body, extra);
        self.post("/v1/completions", &body)
    }

    /// Sends a request and hands back the open connection.
    pub(crate) fn open(&self, path: &str, body: &Value) -> TcpStream {
        let body = body.to_string();
        let mut stream = self.connect();
        stream.write_all(&head("POST", path, &[("content-type", "application/json")], body.len())).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        stream
    }

    pub(crate) fn stats(&self) -> engine::Stats {
        self.engine.as_ref().unwrap().stats()
    }

    /// Waits until the engine's figures are as wanted.
    pub(crate) fn until(&self, what: &str, wanted: impl Fn(&engine::Stats) -> bool) {
        let end = Instant::now() + Duration::from_secs(10);
        while !wanted(&self.stats()) {
            assert!(Instant::now() < end, "waited in vain for {what}: {:?}", self.stats());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Tells the server to stop, without waiting for it.
    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    /// Connections that had to be cut.
    pub(crate) fn join(&mut self) -> usize {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(crate) fn chat_body(extra: Value) -> Value {
    let mut body = json!({
        "model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 12, "temperature": 0
    });
    merge(&mut body, extra);
    body
}

pub(crate) fn merge(body: &mut Value, extra: Value) {
    for (name, value) in extra.as_object().unwrap() {
        body[name] = value.clone();
    }
}

pub(crate) fn head(method: &str, path: &str, headers: &[(&str, &str)], length: usize) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {length}\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        head.push_str("host: 127.0.0.1\r\n");
    }
    headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
    head.push_str("\r\n");
    head.into_bytes()
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn read(stream: &mut TcpStream) -> Answer {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        Answer::parse(&bytes)
    }

    pub(crate) fn parse(bytes: &[u8]) -> Answer {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |l: &str| l.split_once(": ").map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned()));
        let headers: Vec<_> = lines.filter_map(header).collect();
        let mut answer = Answer { status, headers, body: body.to_owned() };
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = unchunk(body);
        }
        answer
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e} in {self:?}"))
    }

    /// The lines of a stream of JSON objects; asserts that each but the last is not done.
    pub(crate) fn lines(&self) -> Vec<Value> {
        assert_eq!(self.header("content-type"), Some("application/x-ndjson"), "{self:?}");
        let lines: Vec<Value> = self.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (last, before) = lines.split_last().unwrap();
        assert!(before.iter().all(|line| line["done"] == false), "{lines:?}");
        assert!(last["done"] == true || last["error"].is_string(), "{lines:?}");
        lines
    }

    /// The `data:` lines of a stream; asserts that it ends with `[DONE]` and that nothing but data and pings is in it.
    pub(crate) fn events(&self) -> Vec<Value> {
        let mut events = Vec::new();
        let mut done = false;
        for line in self.body.lines().filter(|l| !l.is_empty()) {
            assert!(!done, "{line:?} after [DONE]");
            if line == ": ping" {
                continue;
            }
            let data = line.strip_prefix("data: ").unwrap_or_else(|| panic!("not data: {line:?}"));
            done = data == "[DONE]";
            if !done {
                events.push(serde_json::from_str(data).unwrap());
            }
        }
        assert!(done, "no [DONE] in {:?}", self.body);
        events
    }
}

fn unchunk(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        out.push_str(&rest[..size]);
        body = &rest[size + 2..];
    }
    out
}
