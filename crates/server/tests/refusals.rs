//! What bad requests get: always OpenAI's error shape, always the right status.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::frame;

use std::io::{Read, Write};
use std::time::Duration;

use frame::{Answer, chat_body, options, ready};
use serde_json::{Value, json};
use server::{Keys, Options};

const JSON: (&str, &str) = ("content-type", "application/json");

fn error(answer: &Answer) -> Value {
    let error = answer.json()["error"].clone();
    for field in ["message", "type", "param", "code"] {
        assert!(error.get(field).is_some(), "no {field} in {answer:?}");
    }
    assert!(!error["message"].as_str().unwrap().is_empty());
    assert!(answer.header("x-request-id").is_some(), "{answer:?}");
    error
}

/// Method, path, headers, body, status, and a word of the message.
type Case<'a> = (&'a str, &'a str, Vec<(&'a str, &'a str)>, &'a [u8], u16, &'a str);

#[test]
fn every_refusal_has_the_shape() {
    let server = ready(options(), Duration::ZERO);
    let good = chat_body(json!({})).to_string();
    let large = vec![b' '; wire::limits::BODY_BYTES + 1];
    let chat = "/v1/chat/completions";
    let table: Vec<Case<'_>> = vec![
        ("GET", "/nothing", vec![], b"", 404, "/nothing"),
        ("GET", "/v1/chat", vec![], b"", 404, "/v1/chat"),
        ("GET", chat, vec![], b"", 405, "GET"),
        ("POST", "/health", vec![], b"", 405, "POST"),
        ("DELETE", "/v1/models", vec![], b"", 405, "DELETE"),
        ("POST", chat, vec![], good.as_bytes(), 415, "no content-type"),
        ("POST", chat, vec![("content-type", "text/plain")], good.as_bytes(), 415, "text/plain"),
        (
            "POST",
            chat,
            vec![("content-type", "application/x-www-form-urlencoded")],
            good.as_bytes(),
            415,
            "form",
        ),
        ("POST", chat, vec![JSON], b"", 400, "line 1 column 0"),
        ("POST", chat, vec![JSON], b"{\n  \"n\" 5}", 400, "line 2 column 7"),
        ("POST", chat, vec![JSON], b"[1]", 400, "array"),
        ("POST", chat, vec![JSON], b"\xff\xfe", 400, "JSON"),
        ("POST", chat, vec![JSON], &large, 413, "4194304"),
        ("POST", "/v1/completions", vec![JSON], b"{}", 400, "prompt"),
    ];
    for (method, path, headers, body, status, word) in table {
        let answer = server.send(method, path, &headers, body);
        let case = format!("{method} {path} {headers:?}");
        assert_eq!(answer.status, status, "{case}: {answer:?}");
        let message = error(&answer)["message"].as_str().unwrap().to_owned();
        assert!(message.contains(word), "{case}: {message:?} lacks {word:?}");
    }
    assert_eq!(
        server
            .send("POST", chat, &[("content-type", "application/json; charset=utf-8")], good.as_bytes())
            .status,
        200
    );
    assert_eq!(server.send("GET", chat, &[], b"").header("allow"), Some("POST"));
}

#[test]
fn bad_values_reach_nobody() {
    let server = ready(options(), Duration::ZERO);
    let table = [
        (json!({"temperature": 9}), "temperature", "invalid_value"),
        (json!({"n": 99}), "n", "invalid_value"),
        (json!({"messages": [{"role": "user", "content": "refuse"}]}), "messages", "chat_template_error"),
        (
            json!({"messages": [{"role": "user", "content": "x".repeat(200)}]}),
            "messages",
            "context_length_exceeded",
        ),
        (json!({"logit_bias": {"27": 1}}), "logit_bias", "invalid_value"),
        (json!({"model": "gpt-9"}), "model", "model_not_found"),
        (
            json!({"response_format": {"type": "json_schema"}}),
            "response_format.json_schema",
            "missing_required_parameter",
        ),
        (json!({"tool_choice": "required"}), "tool_choice", "invalid_value"),
    ];
    for (extra, param, code) in table {
        for stream in [false, true] {
            let mut extra = extra.clone();
            extra["stream"] = json!(stream);
            let answer = server.chat(extra.clone());
            let error = error(&answer);
            assert!(matches!(answer.status, 400 | 404), "{extra} {answer:?}");
            assert_eq!((&error["param"], &error["code"]), (&json!(param), &json!(code)), "{extra}");
        }
    }
    let long = server.chat(json!({"messages": [{"role": "user", "content": "x".repeat(200)}]})).json();
    let message = long["error"]["message"].as_str().unwrap();
    assert!(message.contains("213") && message.contains("96"), "{message}");
    let template = server.chat(json!({"messages": [{"role": "user", "content": "refuse"}]})).json();
    assert!(template["error"]["message"].as_str().unwrap().contains("line 7"));
    let ids = server.completion(json!({"prompt": [1, 99]})).json();
    assert_eq!(ids["error"]["param"], "prompt", "{ids}");
    let empty = server.completion(json!({"prompt": "", "add_special_tokens": false})).json();
    assert_eq!(empty["error"]["param"], "prompt", "{empty}");
    assert_eq!(server.stats().steps, 0);
}

#[test]
fn a_panic_is_a_500_and_the_next_request_is_served() {
    let server = ready(options(), Duration::ZERO);
    let answer = server.chat(json!({"messages": [{"role": "user", "content": "panic"}]}));
    assert_eq!((answer.status, error(&answer)["code"].clone()), (500, json!("internal_error")));
    assert!(!answer.body.contains("template that panics"), "the panic's words are for the log");
    assert_eq!(server.chat(json!({})).status, 200);
}

#[test]
fn keys() {
    let mut keys = Keys::default();
    keys.add("secret").unwrap();
    let server = ready(
        Options { http: httpd::Options { keys, ..httpd::Options::default() }, ..options() },
        Duration::ZERO,
    );
    let with = |value: &str| server.send("GET", "/v1/models", &[("authorization", value)], b"");
    assert_eq!(with("Bearer secret").status, 200);
    for wrong in ["Bearer secre", "Bearer secrets", "secret", "Basic secret", ""] {
        let answer = with(wrong);
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")), "{wrong:?}");
        assert_eq!(error(&answer)["code"], "invalid_api_key");
    }
    assert_eq!(server.get("/v1/models").status, 401);
    assert_eq!(server.get("/metrics").status, 401);
    assert_eq!(server.get("/nothing").status, 401);
    assert_eq!(server.get("/health").status, 200);
    // A server with a key may be reached under any name.
    assert_eq!(server.send("GET", "/health", &[("host", "models.example.com")], b"").status, 200);
}

#[test]
fn a_page_cannot_borrow_the_browser() {
    let server = ready(options(), Duration::ZERO);
    let answer = server.send("GET", "/v1/models", &[("host", "evil.example.com:8080")], b"");
    assert_eq!((answer.status, error(&answer)["code"].clone()), (421, json!("misdirected_request")));
    assert_eq!(server.send("GET", "/v1/models", &[("host", "localhost:8080")], b"").status, 200);
    // No CORS headers, ever: the browser keeps the answer from the page.
    let preflight =
        server.send("OPTIONS", "/v1/chat/completions", &[("origin", "https://evil.example.com")], b"");
    assert_eq!(preflight.status, 405);
    assert!(preflight.headers.iter().all(|(name, _)| !name.starts_with("access-control")));
}

#[test]
fn request_ids() {
    let server = ready(options(), Duration::ZERO);
    let id = |sent: &[(&str, &str)]| {
        server.send("GET", "/health", sent, b"").header("x-request-id").unwrap().to_owned()
    };
    assert_eq!(id(&[("x-request-id", "trace-7")]), "trace-7");
    assert_ne!(id(&[]), id(&[]));
    assert_eq!(id(&[]).len(), 32);
    assert_eq!(id(&[("x-request-id", &"x".repeat(129))]).len(), 32);
    assert_eq!(id(&[("x-request-id", "two words")]).len(), 32);
}

#[test]
fn slow_heads_and_bodies() {
    let options = Options {
        http: httpd::Options {
            head_timeout: Duration::from_millis(300),
            body_timeout: Duration::from_millis(300),
            ..httpd::Options::default()
        },
        ..options()
    };
    let server = ready(options, Duration::ZERO);
    let mut head = server.connect();
    head.write_all(b"POST /v1/completions HTTP/1.1\r\nhost: ").unwrap();
    let mut rest = Vec::new();
    head.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&rest));

    let mut body = server.connect();
    body.write_all(&frame::head("POST", "/v1/completions", &[JSON], 100)).unwrap();
    body.write_all(b"{\"prompt\"").unwrap();
    let answer = Answer::read(&mut body);
    assert_eq!((answer.status, error(&answer)["code"].clone()), (408, json!("request_timeout")));
}

#[test]
fn bodies_share_their_memory() {
    let options = Options {
        http: httpd::Options { body_bytes: 1 << 20, body_memory_bytes: 1 << 20, ..httpd::Options::default() },
        ..options()
    };
    let server = ready(options, Duration::ZERO);
    let mut holder = server.connect();
    holder.write_all(&frame::head("POST", "/v1/completions", &[JSON], 900 << 10)).unwrap();
    // Memory is taken as bytes arrive.
    holder.write_all(&vec![b' '; 899 << 10]).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let mut padded = chat_body(json!({})).to_string();
    padded.push_str(&" ".repeat(400 << 10));
    let answer = server.send("POST", "/v1/chat/completions", &[JSON], padded.as_bytes());
    assert_eq!((answer.status, answer.header("retry-after").is_some()), (429, true), "{answer:?}");
    assert_eq!(server.chat(json!({})).status, 200);
    drop(holder);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(server.send("POST", "/v1/chat/completions", &[JSON], padded.as_bytes()).status, 200);
}

#[test]
fn connections_are_bounded() {
    let server = ready(
        Options { http: httpd::Options { connections: 2, ..httpd::Options::default() }, ..options() },
        Duration::ZERO,
    );
    let held = (server.connect(), server.connect());
    std::thread::sleep(Duration::from_millis(100));
    let mut third = server.connect();
    let answer = Answer::read(&mut third);
    assert_eq!((answer.status, answer.json()["error"]["code"].clone()), (503, json!("too_many_connections")));
    drop(held);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(server.get("/health").status, 200);
}
