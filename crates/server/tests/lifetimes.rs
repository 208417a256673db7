//! Loading, leaving, falling behind, full houses and the end.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::frame;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use engine::fake::FakeModel;
use engine::{Forward, Limits, Rows};
use frame::{Answer, VOCAB, chat_body, options, paced, ready, ready_with, unready};
use serde_json::json;
use server::Options;

const CHAT: &str = "/v1/chat/completions";

fn long(stream: bool) -> serde_json::Value {
    chat_body(json!({"max_tokens": 78, "ignore_eos": true, "stream": stream}))
}

#[test]
fn loading_then_ready() {
    let server = unready(options(), Duration::from_secs(1));
    server.server.loading("weights, 40 %");
    for answer in [server.get("/health"), server.chat(json!({})), server.get("/v1/models")] {
        assert_eq!(answer.status, 503);
        assert_eq!(answer.json()["error"]["code"], "model_loading");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains("weights, 40 %"));
        assert!(answer.header("retry-after").is_some());
    }
    assert!(server.get("/metrics").body.contains("gristmill_ready 0"));
    let ready = ready(options(), Duration::ZERO);
    assert_eq!((ready.get("/health").status, ready.get("/health").json()), (200, json!({"status": "ok"})));
}

#[test]
fn who_leaves_is_cancelled() {
    let server = ready(options(), Duration::from_millis(20));
    for (i, stream) in [true, false].into_iter().enumerate() {
        let mut client = server.open(CHAT, &long(stream));
        server.until("a running request", |s| s.running == 1);
        if stream {
            let mut some = [0; 64];
            assert!(client.read(&mut some).unwrap() > 0);
        }
        drop(client);
        let began = Instant::now();
        server.until("the cancellation", |s| s.running == 0 && s.cancelled == i as u64 + 1);
        assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    }
    // Its places and blocks are free again.
    assert_eq!(server.stats().kv_blocks_used, 0);
    let aborts = "vllm:request_success_total{model_name=\"tiny\",engine=\"0\",finished_reason=\"abort\"} 2";
    assert!(server.get("/metrics").body.lines().any(|l| l == aborts));
}

#[test]
fn who_leaves_the_queue_is_cancelled() {
    let limits = Limits { max_running: 1, ..Limits::default() };
    let model = paced(FakeModel::new(VOCAB, 96, 64, 32), Duration::from_millis(20));
    let server = ready_with(options(), model, limits);
    let first = server.open(CHAT, &long(true));
    server.until("a running request", |s| s.running == 1);
    let second = server.open(CHAT, &long(false));
    server.until("a waiting request", |s| s.waiting == 1);
    drop(second);
    server.until("an empty queue", |s| s.waiting == 0 && s.running == 1);
    drop(first);
    server.until("an idle engine", |s| s.running == 0 && s.cancelled == 2);
}

#[test]
fn a_full_house_says_when_to_come_back() {
    let server = ready(
        Options {
            service: service::Options { requests: 2, parallel: 1, ..service::Options::default() },
            ..options()
        },
        Duration::from_millis(20),
    );
    let held = (server.open(CHAT, &long(true)), server.open(CHAT, &long(false)));
    server.until("two running requests", |s| s.running == 2);
    let began = Instant::now();
    let answer = server.chat(json!({}));
    assert!(began.elapsed() < Duration::from_millis(500));
    assert_eq!((answer.status, answer.json()["error"]["code"].clone()), (429, json!("queue_full")));
    let seconds: u32 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=120).contains(&seconds));
    drop(held);
    server.until("an idle engine", |s| s.running == 0);
    // One request may ask for as many answers as there are places, not for more.
    assert_eq!(server.chat(json!({"n": 2})).status, 200);
    assert_eq!(server.chat(json!({"n": 3})).json()["error"]["param"], "n");
    assert_eq!(server.chat(json!({})).status, 200);
}

/// Says `a` for ever, fast.
struct Chatter {
    logits: Vec<f32>,
}

impl Forward for Chatter {
    fn vocab(&self) -> usize {
        VOCAB
    }
    fn context(&self) -> usize {
        1 << 20
    }
    fn blocks(&self) -> usize {
        1 << 15
    }
    fn block_tokens(&self) -> usize {
        32
    }
    fn forward(&mut self, rows: &Rows<'_>) -> Result<&[f32], String> {
        self.logits = (0..VOCAB * rows.want.len()).map(|i| if i % VOCAB == 1 { 9.0 } else { 0.0 }).collect();
        Ok(&self.logits)
    }
}

#[test]
fn who_stops_reading_is_cut_off() {
    let options = Options {
        http: httpd::Options { write_timeout: Duration::from_millis(600), ..httpd::Options::default() },
        service: service::Options { stream_events: 64, ..service::Options::default() },
        ..options()
    };
    let server = ready_with(options, Chatter { logits: Vec::new() }, Limits::default());
    let body = chat_body(json!({
        "max_tokens": 1_000_000, "ignore_eos": true, "stream": true, "logprobs": true, "top_logprobs": 20
    }));
    let client = server.open(CHAT, &body);
    // Socket buffers fill, then the channel, then the engine is told.
    server.until("the cancellation", |s| s.running == 0 && s.steps > 64);
    let metrics = server.get("/metrics").body;
    assert!(
        metrics.contains("gristmill_slow_readers_total{model_name=\"tiny\",engine=\"0\"} 1"),
        "{metrics}"
    );
    // The connection itself is given up as well.
    let end = Instant::now() + Duration::from_secs(10);
    while !server.get("/metrics").body.contains("gristmill_connections 1\n") {
        assert!(Instant::now() < end, "the connection is still there");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(client);
}

#[test]
fn pings_while_it_is_silent() {
    let server = ready(options(), Duration::from_millis(450));
    let answer = server.chat(json!({"max_tokens": 2, "stream": true, "ignore_eos": true}));
    assert!(answer.body.matches(": ping\n\n").count() >= 2, "{}", answer.body);
    assert_eq!(answer.events().last().unwrap()["choices"][0]["finish_reason"], "length");
}

#[test]
fn a_drain_lets_answers_finish() {
    let mut server = ready(options(), Duration::from_millis(5));
    let mut stream = server.open(CHAT, &long(true));
    let mut whole = server.open(CHAT, &long(false));
    // A connection that only sits there does not hold up the end.
    let idle = server.connect();
    server.until("two running requests", |s| s.running == 2);
    server.stop();
    let read = |s: &mut TcpStream| Answer::read(s);
    let streamed: String = read(&mut stream)
        .events()
        .iter()
        .filter_map(|e| e["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect();
    let answer = read(&mut whole).json();
    assert_eq!(answer["usage"]["completion_tokens"], 78);
    assert_eq!(answer["choices"][0]["message"]["content"], streamed);
    assert_eq!(server.join(), 0);
    assert!(TcpStream::connect(server.address).is_err());
    drop(idle);
}

#[test]
fn a_drain_ends() {
    let mut server = unready(options(), Duration::from_millis(200));
    let model = paced(FakeModel::new(VOCAB, 96, 64, 32), Duration::from_millis(100));
    let engine = engine::Engine::start_with(
        model,
        std::sync::Arc::new(engine::fake::FakeVocabulary),
        Limits::default(),
        server.server.watch("tiny"),
    )
    .unwrap();
    let served =
        server::LoadedModel::new(vec!["tiny".into()], engine.clone(), std::sync::Arc::new(frame::Letters));
    server.server.ready(served, Instant::now());
    server.engine = Some(engine);
    let mut stream = server.open(CHAT, &long(true));
    server.until("a running request", |s| s.running == 1);
    let mut open = server.connect();
    let began = Instant::now();
    server.stop();
    let _ = open.write_all(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n");
    let events = Answer::read(&mut stream).events();
    let last = events.last().unwrap();
    assert_eq!(last["error"]["code"], "draining", "{last}");
    server.join();
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}
