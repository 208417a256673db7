//! What a raw socket can send: heads that are refused, sides that end, lengths that disagree.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::frame;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use engine::Limits;
use engine::fake::FakeModel;
use frame::{Answer, CONTEXT, Running, VOCAB, chat_body, head, options, paced, ready, ready_with};
use serde_json::json;
use server::{KeyLimits, Keys, Options};

const CHAT: &str = "/v1/chat/completions";

/// What comes back for these bytes, until the server closes.
fn talk(server: &Running, bytes: &[u8]) -> Vec<u8> {
    let mut stream = server.connect();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // The server may refuse before everything is sent.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// The one answer in what came back, refused in the API's shape.
fn refused(server: &Running, bytes: &[u8], status: u16) -> Answer {
    let came = talk(server, bytes);
    let text = String::from_utf8_lossy(&came);
    let heads = text.lines().filter(|line| line.starts_with("HTTP/1.1 ")).count();
    assert_eq!(heads, 1, "{:?}: {text}", String::from_utf8_lossy(bytes));
    let answer = Answer::parse(&came);
    assert_eq!(answer.status, status, "{:?}: {text}", String::from_utf8_lossy(bytes));
    assert_eq!(answer.header("connection"), Some("close"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert!(answer.header("x-request-id").is_some());
    assert!(!answer.json()["error"]["message"].as_str().unwrap().is_empty());
    answer
}

fn chat(extra: serde_json::Value) -> Vec<u8> {
    let body = chat_body(extra).to_string();
    let mut bytes = head("POST", CHAT, &[("content-type", "application/json")], body.len());
    bytes.extend_from_slice(body.as_bytes());
    bytes
}

#[test]
fn said_badly_protocol_errors_have_a_body() {
    let server = ready(options(), Duration::ZERO);
    for (bytes, status) in [
        (&b"GARBAGE\r\n\r\n"[..], 400),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\nbad header\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\nx: a\x01b\r\n\r\n", 400),
        (b"GET /\x00 HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/3.0\r\nhost: localhost\r\n\r\n", 505),
        (b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", 505),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"CONNECT evil.example.com:443 HTTP/1.1\r\nhost: evil.example.com:443\r\n\r\n", 405),
        (b"\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n", 400),
    ] {
        refused(&server, bytes, status);
    }
    // In Anthropic's shape on its paths.
    let answer = refused(&server, b"POST /v1/messages HTTP/1.1\r\n\r\n", 400);
    assert_eq!(answer.json()["type"], "error");
    assert_eq!(answer.json()["error"]["type"], "invalid_request_error");
    // Half a head, and no more to come.
    let mut stream = server.connect();
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: loc").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let answer = Answer::read(&mut stream);
    assert!(answer.status == 400 && answer.body.contains("inside the head"), "{answer:?}");
    // They are counted.
    let metrics = server.get("/metrics").body;
    assert!(
        metrics.lines().any(|line| line.contains("status=\"505\"") || line.contains("status=\"5xx\"")),
        "{metrics}"
    );
}

#[test]
fn said_badly_the_limit_on_heads_is_the_documented_one() {
    let server = ready(options(), Duration::ZERO);
    let sized = |bytes: usize| {
        let begin = "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-a: ";
        format!("{begin}{}\r\n\r\n", "a".repeat(bytes - begin.len() - 4)).into_bytes()
    };
    let largest = sized(64 << 10);
    assert_eq!(Answer::parse(&talk(&server, &largest)).status, 200);
    let answer = refused(&server, &sized((64 << 10) + 1), 431);
    assert!(answer.body.contains("65536 bytes"), "{}", answer.body);
    refused(&server, &sized(1 << 20), 431);
    // The target may be as long.
    let long =
        format!("GET /{} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", "a".repeat(65_000));
    assert_eq!(Answer::parse(&talk(&server, long.as_bytes())).status, 404);
    let lines = |count: usize| {
        let lines: String = (0..count - 2).map(|n| format!("x-{n}: 1\r\n")).collect();
        format!("GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{lines}\r\n")
    };
    assert_eq!(Answer::parse(&talk(&server, lines(100).as_bytes())).status, 200);
    refused(&server, lines(101).as_bytes(), 431);
}

#[test]
fn abuse_a9_hosts_are_checked_in_every_form() {
    let server = ready(options(), Duration::ZERO);
    let ask = |target: &str, host: &str| {
        format!("GET {target} HTTP/1.1\r\n{host}connection: close\r\n\r\n").into_bytes()
    };
    for host in [
        "",
        "host: a\r\nhost: a\r\n",
        "host: \r\n",
        "host: localhost:notaport\r\n",
        "host: u@localhost\r\n",
        "host: [::1%25lo]\r\n",
        "host: lоcalhost\r\n",
    ] {
        refused(&server, &ask("/v1/models", host), 400);
    }
    refused(&server, &ask("http://localhost/v1/models", "host: evil.example.com\r\n"), 400);
    refused(&server, &ask("http://evil.example.com/v1/models", "host: localhost\r\n"), 400);
    let status = |bytes: Vec<u8>| Answer::parse(&talk(&server, &bytes)).status;
    assert_eq!(status(ask("http://evil.example.com/v1/models", "host: evil.example.com\r\n")), 421);
    assert_eq!(status(ask("http://localhost:1/v1/models", "host: localhost:1\r\n")), 200);
    assert_eq!(status(ask("/v1/models", "host: localhost..\r\n")), 400);
    for host in ["evil.example.com", "localhost.evil.com", "127.1", "0.0.0.0", "[::2]", "2130706433"] {
        assert_eq!(status(ask("/v1/models", &format!("host: {host}\r\n"))), 421, "{host}");
    }
    for host in ["LOCALHOST", "localhost.", "127.0.0.1:80", "[::1]", "a.localhost:1"] {
        assert_eq!(status(ask("/v1/models", &format!("host: {host}\r\n"))), 200, "{host}");
    }
    assert_eq!(status(b"GET /v1/models HTTP/1.0\r\n\r\n".to_vec()), 200);
}

#[test]
fn abuse_a9_nothing_is_smuggled() {
    let server = ready(options(), Duration::ZERO);
    let hidden = "GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for (more, status) in [
        ("content-length: 4\r\ntransfer-encoding: chunked", 400),
        ("transfer-encoding: chunked\r\ncontent-length: 4", 400),
        ("content-length: 4\r\ncontent-length: 5", 400),
        ("content-length: 4\r\ncontent-length: 4", 400),
        ("content-length: 4, 4", 400),
        ("content-length: +4", 400),
        ("content-length : 4", 400),
        ("transfer-encoding : chunked", 400),
        ("transfer-encoding: \x0bchunked", 400),
        ("transfer-encoding: chunked, identity", 501),
        ("transfer-encoding: identity, chunked", 501),
        ("transfer-encoding: chunked\r\ntransfer-encoding: identity", 400),
        ("x-a: b\r\n content-length: 4", 400),
        ("x-a: b\ncontent-length: 4", 400),
        ("x-a: b\rcontent-length: 4", 400),
    ] {
        let bytes = format!("POST /tokenize HTTP/1.1\r\nhost: localhost\r\n{more}\r\n\r\n0\r\n\r\n{hidden}");
        refused(&server, bytes.as_bytes(), status);
    }
    refused(&server, b"GET / HTTP/1.1\nhost: localhost\n\n", 400);
    refused(&server, b"GET / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400);
    // A chunked body is the last on its connection, whatever comes behind it; a broken one is refused.
    let chunked = |body: &str| {
        let body = format!(
            "POST /tokenize HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{body}{hidden}"
        );
        let came = String::from_utf8(talk(&server, body.as_bytes())).unwrap();
        assert_eq!(came.matches("HTTP/1.1 ").count(), 1, "{came}");
        Answer::parse(came.as_bytes()).status
    };
    assert_eq!(chunked("10\r\n{\"prompt\": \"abc\"\r\n1;x=y\r\n}\r\n0\r\nx-trailer: 1\r\n\r\n"), 200);
    for bad in ["10\n{\"prompt\": \"abc\"\n", "zz\r\n", "-1\r\n", "10\r\n{\"prompt\": \"abc\"}\r\n0\r\n\r\n"]
    {
        assert_eq!(chunked(bad), 400, "{bad}");
    }
    let long = format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(1 << 16));
    assert_eq!(chunked(&long), 400);
    let trailers = format!("1\r\na\r\n0\r\n{}\r\n", "x: y\r\n".repeat(1 << 14));
    assert_eq!(chunked(&trailers), 400);
}

#[test]
fn said_badly_a_side_that_ends_gets_its_answer() {
    let server = ready(options(), Duration::from_millis(40));
    for extra in [json!({}), json!({"stream": true})] {
        for version in ["HTTP/1.1", "HTTP/1.0"] {
            let text = String::from_utf8(chat(extra.clone())).unwrap().replacen("HTTP/1.1", version, 1);
            let mut stream = server.connect();
            stream.write_all(text.as_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut came = String::new();
            stream.read_to_string(&mut came).unwrap();
            let last = came.replace("HTTP/1.1 100 Continue\r\n\r\n", "");
            assert!(last.contains(" 200 OK\r\n") && last.contains("\"finish_reason\":\""), "{came}");
            assert!(!last.contains("HTTP/1.1 100"), "{came}");
            if version == "HTTP/1.0" {
                assert!(!came.contains("100 Continue"), "HTTP/1.0 knows no interim answers: {came}");
            }
        }
    }
    // Without a body, and while nothing else is said.
    let mut stream = server.connect();
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(Answer::read(&mut stream).status, 200);
    // In the middle of a body.
    let mut stream = server.connect();
    stream.write_all(&head("POST", CHAT, &[("content-type", "application/json")], 100)).unwrap();
    stream.write_all(b"{").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(Answer::read(&mut stream).status, 400);
}

#[test]
fn who_closes_is_cancelled_though_sides_may_end() {
    let limits = Limits { max_running: 1, ..Limits::default() };
    let server = ready_with(
        options(),
        paced(FakeModel::new(VOCAB, CONTEXT, 64, 32), Duration::from_millis(50)),
        limits,
    );
    let long = |stream: bool| chat(json!({"max_tokens": 78, "ignore_eos": true, "stream": stream}));
    for (count, (extra, pipelined)) in [(false, false), (true, false), (false, true)].into_iter().enumerate()
    {
        let mut stream = server.connect();
        let text = String::from_utf8(long(extra)).unwrap().replace("connection: close\r\n", "");
        stream.write_all(text.as_bytes()).unwrap();
        if pipelined {
            // What waits behind does not hide the end.
            stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        }
        server.until("a running request", |s| s.running == 1);
        let began = Instant::now();
        drop(stream);
        server.until("the cancellation", |s| s.running == 0 && s.cancelled == count as u64 + 1);
        assert!(began.elapsed() < Duration::from_millis(800), "{:?}", began.elapsed());
    }
    // While it waits in the queue, where nothing of a stream has been said.
    let first = server.open(CHAT, &chat_body(json!({"max_tokens": 78, "ignore_eos": true})));
    server.until("a running request", |s| s.running == 1);
    let second = server.open(CHAT, &chat_body(json!({"stream": true})));
    server.until("a waiting request", |s| s.waiting == 1);
    drop(second);
    server.until("an empty queue", |s| s.waiting == 0 && s.running == 1);
    drop(first);
    server.until("an idle engine", |s| s.running == 0);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = ready(options(), Duration::ZERO);
    let mut bytes = Vec::new();
    for n in 0..40 {
        let body = json!({"prompt": "a".repeat(n + 1)}).to_string();
        bytes.extend_from_slice(
            format!(
                "\r\nPOST /tokenize HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .as_bytes(),
        );
    }
    bytes.extend_from_slice(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let came = String::from_utf8(talk(&server, &bytes)).unwrap();
    let counts: Vec<&str> =
        came.split("\"count\":").skip(1).map(|rest| rest.split([',', '}']).next().unwrap()).collect();
    // One token more stands before each text.
    let expected: Vec<String> = (0..40).map(|n| (n + 2).to_string()).collect();
    assert_eq!(counts, expected, "{came}");
    assert!(came.ends_with(r#"{"status":"ok"}"#), "{came}");
}

#[test]
fn heads_come_in_pieces() {
    let server = ready(options(), Duration::ZERO);
    let mut stream = server.connect();
    for byte in b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    assert_eq!(Answer::read(&mut stream).status, 200);
    // Expect: 100-continue, a body in pieces, and the side's end while it is computed.
    let body = chat_body(json!({})).to_string();
    let mut stream = server.connect();
    let headers = [("content-type", "application/json"), ("expect", "100-continue")];
    stream.write_all(&head("POST", CHAT, &headers, body.len())).unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    for piece in body.as_bytes().chunks(7) {
        stream.write_all(piece).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    let mut came = String::new();
    stream.read_to_string(&mut came).unwrap();
    assert!(came.contains("200 OK") && came.contains("finish_reason"), "{came}");
}

/// A refusal reaches a client that sends its whole body before it reads, and the body does not reach anybody.
#[test]
fn refusals_reach_who_is_still_sending() {
    let mut keys = Keys::new(KeyLimits::default());
    keys.add_lines("a-key-that-is-long-enough").unwrap();
    let server = ready(
        Options { http: httpd::Options { keys, ..httpd::Options::default() }, ..options() },
        Duration::ZERO,
    );
    let body = vec![b'a'; 4 << 20];
    let mut stream = server.connect();
    stream.write_all(&head("POST", CHAT, &[("content-type", "application/json")], body.len())).unwrap();
    stream.write_all(&body).unwrap();
    assert_eq!(Answer::read(&mut stream).status, 401);
}

#[test]
fn paths_are_taken_as_they_are() {
    let server = ready(options(), Duration::ZERO);
    let status = |target: &str| {
        let bytes = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        Answer::parse(&talk(&server, bytes.as_bytes())).status
    };
    for target in [
        "//v1/models",
        "/%2e%2e/v1/models",
        "/v1/models/../../health",
        "/./health",
        "/health/",
        "/%00",
        "/v1%2fmodels",
        "/health;a=b",
        "/HEALTH",
        "/v1/models/%ff",
    ] {
        let found = status(target);
        assert!((400..500).contains(&found), "{target}: {found}");
    }
    assert_eq!(status(&format!("/health?{}", "a=b&".repeat(10_000))), 200);
    for (method, expected) in [("TRACE", 405), ("DELETE", 405), ("PROPFIND", 405), ("OPTIONS", 405)] {
        let bytes = format!(
            "{method} /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-secret: 1\r\n\r\n"
        );
        let answer = Answer::parse(&talk(&server, bytes.as_bytes()));
        assert_eq!(answer.status, expected, "{method}");
        assert!(!answer.body.contains("x-secret"), "{method}");
    }
    // An upgrade that is not offered is an ordinary request.
    let bytes = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade, close\r\nupgrade: websocket\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
    assert_eq!(Answer::parse(&talk(&server, bytes)).status, 200);
    let bytes = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n\r\n";
    assert_eq!(Answer::parse(&talk(&server, bytes)).status, 200);
}

#[test]
fn abuse_a9_every_answer_has_the_security_headers() {
    let server = ready(options(), Duration::ZERO);
    let stream = |on: bool| server.chat(json!({"stream": on}));
    for answer in [
        server.get("/health"),
        server.get("/v1/models"),
        server.get("/nothing"),
        server.get("/metrics"),
        stream(false),
        stream(true),
        server.chat(json!({"n": 99})),
    ] {
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{answer:?}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{answer:?}");
    }
    let page = server.get("/");
    assert_eq!(page.header("cache-control"), Some("no-cache"));
    assert!(page.header("content-security-policy").is_some());
}

/// Many sockets that say nothing, or begin and never end, while others are served.
#[test]
fn silent_sockets_do_not_starve_others() {
    let server = ready(
        Options {
            http: httpd::Options {
                head_timeout: Duration::from_secs(1),
                connections: 64,
                ..httpd::Options::default()
            },
            ..options()
        },
        Duration::ZERO,
    );
    let mut held: Vec<TcpStream> = (0..60).map(|_| server.connect()).collect();
    for (index, stream) in held.iter_mut().enumerate() {
        let _ = stream.write_all(&b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n"[..index % 48]);
    }
    assert_eq!(server.get("/health").status, 200);
    for mut stream in held {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut came = Vec::new();
        assert!(stream.read_to_end(&mut came).is_ok(), "closed after the time for heads");
    }
}
