//! What the people who run a server rely on: keys that change, limits of a key, records, health.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::frame;

use std::io::Read;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use frame::{Answer, Running, chat_body, options, ready, unready};
use serde_json::json;
use server::{Audit, KeyLimits, Keys, Options, Record, Stages};

const CHAT: &str = "/v1/chat/completions";

fn keys(text: &str) -> Keys {
    let mut keys = Keys::new(KeyLimits::default());
    keys.add_lines(text).unwrap();
    keys
}

fn chat_as(server: &Running, key: &str, extra: serde_json::Value) -> Answer {
    let shown = format!("Bearer {key}");
    let headers = [("content-type", "application/json"), ("authorization", shown.as_str())];
    server.send("POST", CHAT, &headers, chat_body(extra).to_string().as_bytes())
}

#[derive(Default)]
pub(crate) struct Kept(Mutex<Vec<Record>>);

impl Audit for Kept {
    fn note(&self, record: &Record) {
        self.0.lock().unwrap().push(record.clone());
    }
}

impl Kept {
    /// Waits for the record of a path that was answered, and takes all.
    pub(crate) fn until(&self, count: usize) -> Vec<Record> {
        let end = Instant::now() + Duration::from_secs(10);
        while self.0.lock().unwrap().len() < count {
            assert!(Instant::now() < end, "only {:?}", self.0.lock().unwrap());
            std::thread::sleep(Duration::from_millis(2));
        }
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

#[test]
fn keys_change_while_it_runs() {
    let server = ready(
        Options {
            http: httpd::Options { keys: keys("old\nboth requests=2"), ..httpd::Options::default() },
            ..options()
        },
        Duration::ZERO,
    );
    assert_eq!(
        (chat_as(&server, "old", json!({})).status, chat_as(&server, "both", json!({})).status),
        (200, 200)
    );
    assert!(server.server.set_keys(keys("new\nboth requests=2")));
    assert_eq!(
        (chat_as(&server, "old", json!({})).status, chat_as(&server, "new", json!({})).status),
        (401, 200)
    );
    // The second of its two requests a minute; the change has not given it two more.
    assert_eq!(chat_as(&server, "both", json!({})).status, 200);
    assert_eq!(chat_as(&server, "both", json!({})).status, 429);
    assert!(!server.server.set_keys(Keys::default()), "no keys would let everybody in");
    assert_eq!(chat_as(&server, "old", json!({})).status, 401);
}

#[test]
fn limits_of_a_key_are_its_own() {
    let text = "few requests=1\nlittle tokens=10\nalone concurrent=1\nfree";
    let server = ready(
        Options { http: httpd::Options { keys: keys(text), ..httpd::Options::default() }, ..options() },
        Duration::from_millis(10),
    );
    let refused = |answer: &Answer| {
        assert_eq!(answer.status, 429, "{}", answer.body);
        assert_eq!(answer.json()["error"]["code"], "rate_limit_exceeded");
        answer.header("retry-after").unwrap().parse::<u32>().unwrap()
    };
    assert_eq!(chat_as(&server, "few", json!({})).status, 200);
    assert!((50..=60).contains(&refused(&chat_as(&server, "few", json!({})))));
    // The first request may begin; what it took beyond the limit is waited for: more than a minute.
    assert_eq!(chat_as(&server, "little", json!({})).status, 200);
    // Its tokens are spent when the engine has let go of it, which may be after its answer has arrived.
    server.until("nobody left", |s| s.running == 0);
    assert!(refused(&chat_as(&server, "little", json!({}))) > 60);
    // Looking costs nothing.
    let bearer = [("authorization", "Bearer few")];
    assert_eq!(server.send("GET", "/v1/models", &bearer, b"").status, 200);

    // An answer may arrive before its request counts as ended.
    server.until("nobody left", |s| s.running == 0);
    let body = chat_body(json!({ "max_tokens": 70, "ignore_eos": true, "stream": true }));
    let mut first = server.connect();
    let headers = [("content-type", "application/json"), ("authorization", "Bearer alone")];
    let text = body.to_string();
    std::io::Write::write_all(&mut first, &frame::head("POST", CHAT, &headers, text.len())).unwrap();
    std::io::Write::write_all(&mut first, text.as_bytes()).unwrap();
    server.until("a running request", |s| s.running == 1);
    assert_eq!(refused(&chat_as(&server, "alone", json!({}))), 1);
    // Nobody else waits for it.
    assert_eq!(chat_as(&server, "free", json!({})).status, 200);
    drop(first);
    server.until("the end", |s| s.running == 0);
    let end = Instant::now() + Duration::from_secs(5);
    while chat_as(&server, "alone", json!({})).status != 200 {
        assert!(Instant::now() < end, "the place of a client that left is free again");
    }
    let metrics = server.send("GET", "/metrics", &[("authorization", "Bearer free")], b"").body;
    let counted = metrics.lines().find(|line| line.contains("reason=\"key_limit\"")).unwrap();
    assert!(!counted.ends_with(" 0"), "{counted}");
}

#[test]
fn every_request_leaves_a_record() {
    let kept = Arc::new(Kept::default());
    let server = ready(
        Options {
            http: httpd::Options { keys: keys("secret name=team-a"), ..httpd::Options::default() },
            ..options()
        },
        Duration::from_millis(5),
    );
    server.server.audit(kept.clone());
    assert_eq!(chat_as(&server, "secret", json!({})).status, 200);
    let whole = kept.until(1).remove(0);
    assert_eq!((whole.key.as_deref(), whole.peer.as_deref()), (Some("team-a"), Some("127.0.0.1")));
    assert_eq!((whole.path, whole.status, whole.model.as_deref()), (CHAT, 200, Some("tiny")));
    assert!(whole.prompt_tokens > 0 && whole.completion_tokens > 0, "{whole:?}");
    assert!(whole.first_token_ms.unwrap() <= whole.duration_ms && whole.endings.len() == 1, "{whole:?}");

    // A stream's record has all of it, although its head was answered long before.
    let answer =
        chat_as(&server, "secret", json!({ "stream": true, "max_tokens": 20, "ignore_eos": true, "n": 2 }));
    assert_eq!(answer.status, 200);
    let streamed = kept.until(1).remove(0);
    assert_eq!((streamed.completion_tokens, streamed.endings.as_slice()), (40, &["length", "length"][..]));
    assert_eq!(streamed.prompt_tokens, whole.prompt_tokens, "two answers have one prompt");
    assert!(streamed.duration_ms >= 60.0, "{streamed:?}");

    assert_eq!(chat_as(&server, "wrong", json!({})).status, 401);
    let refused = kept.until(1).remove(0);
    assert_eq!((refused.status, refused.key, refused.model), (401, None, None));

    let mut left = server.connect();
    let body = chat_body(json!({ "max_tokens": 78, "ignore_eos": true, "stream": true })).to_string();
    let headers = [("content-type", "application/json"), ("authorization", "Bearer secret")];
    std::io::Write::write_all(&mut left, &frame::head("POST", CHAT, &headers, body.len())).unwrap();
    std::io::Write::write_all(&mut left, body.as_bytes()).unwrap();
    assert!(left.read(&mut [0; 64]).unwrap() > 0);
    drop(left);
    assert_eq!(kept.until(1).remove(0).endings, ["abort"]);

    // Health and metrics would bury the rest; nothing a client wrote is kept.
    server.get("/health");
    server.send("GET", "/metrics", &[("authorization", "Bearer secret")], b"");
    assert_eq!(chat_as(&server, "secret", json!({})).status, 200);
    let last = kept.until(1);
    let [last] = &last[..] else { panic!("one record, not {last:?}") };
    let json = serde_json::to_string(last).unwrap();
    assert!(!json.contains("hello") && !json.contains("secret"), "{json}");
}

#[test]
fn a_request_that_failed_has_used_the_machine_too() {
    let kept = Arc::new(Kept::default());
    let server = ready(options(), Duration::from_millis(20));
    server.server.audit(kept.clone());
    let body = chat_body(json!({ "timeout": 0.3, "max_tokens": 70, "ignore_eos": true })).to_string();
    let answer = server.send("POST", CHAT, &[("content-type", "application/json")], body.as_bytes());
    assert_eq!(answer.status, 408, "{}", answer.body);
    let record = kept.until(1).remove(0);
    assert_eq!(record.endings, ["error"]);
    assert!(record.prompt_tokens > 0 && record.completion_tokens > 0, "{record:?}");
    // Alone, it had the engine for itself from its first step to its last.
    assert!((record.duration_ms * 0.5..=record.duration_ms).contains(&record.machine_ms), "{record:?}");
    let stages = record.stages;
    assert!(
        stages.started_ms <= record.first_token_ms && record.first_token_ms < stages.ended_ms,
        "{record:?}"
    );
}

#[test]
fn a_record_tells_the_trace_and_how_far_it_got() {
    let kept = Arc::new(Kept::default());
    let server = ready(options(), Duration::from_millis(2));
    server.server.audit(kept.clone());
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers = [("content-type", "application/json"), ("traceparent", parent), ("tracestate", "mill=1")];
    let send = |extra| server.send("POST", CHAT, &headers, chat_body(extra).to_string().as_bytes()).status;
    assert_eq!(send(json!({ "n": 2 })), 200);
    let record = kept.until(1).remove(0);
    let parent = record.parent.clone().unwrap();
    assert_eq!((parent.span_id, parent.flags), (0x00f0_67aa_0ba9_02b7u64.to_be_bytes(), 1));
    assert_eq!(parent.state.as_deref(), Some("mill=1"));
    let Stages { submitted_ms, started_ms, ended_ms } = record.stages;
    assert!(submitted_ms.is_some() && submitted_ms <= started_ms, "{record:?}");
    assert!(started_ms <= record.first_token_ms && record.first_token_ms <= ended_ms, "{record:?}");
    assert!(ended_ms.unwrap() <= record.duration_ms, "{record:?}");
    // The audit log's line stays as it was.
    let line = serde_json::to_value(&record).unwrap();
    assert!(line.get("parent").is_none() && line.get("stages").is_none(), "{line}");
    assert_eq!(send(json!({ "n": 0 })), 400);
    assert_eq!(kept.until(1).remove(0).stages, Stages::default());
}

#[test]
fn alive_while_it_loads_and_drains() {
    let server = unready(options(), Duration::from_secs(1));
    assert_eq!((server.get("/health/live").status, server.get("/health/ready").status), (200, 503));
    let mut keyed = ready(
        Options {
            http: httpd::Options {
                keys: keys("secret"),
                drain_notice: Duration::from_secs(3),
                ..httpd::Options::default()
            },
            ..options()
        },
        Duration::ZERO,
    );
    assert_eq!((keyed.get("/health/live").status, keyed.get("/health/ready").status), (200, 200));
    keyed.stop();
    let end = Instant::now() + Duration::from_secs(5);
    while keyed.get("/health/ready").status != 503 {
        assert!(Instant::now() < end, "readiness ends with the signal");
    }
    // Not ready, still alive, and who did not hear of it yet is served.
    assert_eq!(keyed.get("/health/live").status, 200);
    assert_eq!(chat_as(&keyed, "secret", json!({})).status, 200);
    assert_eq!(keyed.join(), 0);
}
