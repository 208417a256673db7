//! `gristmill serve` as a node of a gateway: what it pushes there, and what becomes of a stream whose node dies.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use wire::node::{NodePush, NodeRecord, NodeState};

use crate::support::served::{Server, read, within};
use crate::support::{self, Tiny};

/// A request that a gateway got: line, key and body.
#[derive(Debug, Clone)]
struct Got {
    line: String,
    key: String,
    body: Vec<u8>,
}

/// A gateway that keeps what it gets, and answers with this status.
struct FakeGateway {
    url: String,
    got: Arc<Mutex<Vec<Got>>>,
    status: Arc<Mutex<&'static str>>,
}

impl FakeGateway {
    fn start(status: &'static str) -> FakeGateway {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let gateway = FakeGateway { url, got: Arc::default(), status: Arc::new(Mutex::new(status)) };
        let (got, status) = (gateway.got.clone(), gateway.status.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
                let of = |name: &str| {
                    let lines = head.lines().filter_map(|line| line.split_once(": "));
                    lines
                        .into_iter()
                        .find(|(n, _)| n.eq_ignore_ascii_case(name))
                        .map(|(_, value)| value.to_owned())
                };
                let mut body = vec![0; of("content-length").map_or(0, |length| length.parse().unwrap())];
                reader.read_exact(&mut body).unwrap();
                let line = head.lines().next().unwrap_or_default().to_owned();
                got.lock().unwrap().push(Got { line, key: of("authorization").unwrap_or_default(), body });
                let status = *status.lock().unwrap();
                let answer =
                    format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
                reader.get_mut().write_all(answer.as_bytes()).unwrap();
            }
        });
        gateway
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    fn pushes(&self) -> Vec<NodePush> {
        let pushes = self.got().into_iter().filter(|got| got.line.starts_with("POST /gateway/nodes "));
        pushes.map(|got| NodePush::parse(&got.body).unwrap()).collect()
    }
}

#[test]
fn a_node_registers_pushes_and_leaves() {
    let (tiny, gateway) = (Tiny::new(), FakeGateway::start("200 OK"));
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, "node-key\n").unwrap();
    let flags = ["--gateway", &gateway.url, "--gateway-key-file", key.to_str().unwrap()];
    let mut server = Server::start(&tiny, &flags);
    let is_ready = |push: &NodePush| push.record.state == NodeState::Ready;
    within("a push of a node that is ready", || gateway.pushes().last().is_some_and(is_ready));
    let push = gateway.pushes().pop().unwrap();
    assert_eq!(push.advertise, format!("http://{}", server.address));
    let model = &push.record.models[0];
    assert!(model.names == ["tiny"] && model.fingerprint.is_some() && model.slots > 0, "{model:?}");
    let (status, body) = read(server.request("GET", "/v1/node", "", ""));
    let own = NodeRecord::parse(body.as_bytes()).unwrap();
    assert_eq!((status, &own.id, &own.tier), (200, &push.record.id, &push.record.tier));
    // News is pushed: the tokens of this prompt were computed.
    assert_eq!(server.complete("").0, 200);
    let queried = |push: &NodePush| push.record.models[0].prefix_cache.unwrap().queried_tokens;
    within("a push of what was computed", || gateway.pushes().last().is_some_and(|push| queried(push) > 0));
    let pushes = gateway.pushes();
    assert!(pushes.windows(2).all(|pair| pair[0].record.sequence < pair[1].record.sequence));
    assert!(server.stop().success());
    let got = gateway.got();
    assert!(got.iter().all(|got| got.key == "Bearer node-key"), "{got:?}");
    assert_eq!(got.last().unwrap().line, format!("DELETE /gateway/nodes/{} HTTP/1.1", own.id));
}

#[test]
fn a_gateway_that_refuses_costs_a_line() {
    let (tiny, gateway) = (Tiny::new(), FakeGateway::start("503 Service Unavailable"));
    let flags = ["--gateway", &gateway.url, "--advertise", "https://node-1.example:8443"];
    let mut server = Server::start(&tiny, &flags);
    within("three pushes", || gateway.pushes().len() >= 3);
    assert_eq!(gateway.pushes()[0].advertise, "https://node-1.example:8443");
    assert_eq!(server.complete("").0, 200);
    *gateway.status.lock().unwrap() = "200 OK";
    server.until("takes this node's load again");
    assert!(server.stop().success());
    let said = server.rest();
    assert!(!said.contains("does not take"), "said once, and before: {said}");
    assert!(gateway.got().last().unwrap().line.starts_with("DELETE"), "{:?}", gateway.got());
}

#[test]
fn flags_of_a_gateway_that_cannot_be_are_refused() {
    let tiny = Tiny::new();
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("key");
    std::fs::write(&empty, "\n").unwrap();
    for (flags, code, word) in [
        (vec!["--gateway", "nowhere"], 2, "--gateway"),
        (vec!["--gateway", "http://127.0.0.1:1", "--advertise", "node"], 2, "--advertise"),
        (
            vec!["--gateway", "http://127.0.0.1:1", "--gateway-key-file", empty.to_str().unwrap()],
            1,
            "no key in it",
        ),
        (
            vec!["--gateway", "http://127.0.0.1:1", "--host", "0.0.0.0", "--insecure-no-auth"],
            2,
            "--advertise",
        ),
    ] {
        let output = support::run(&[&["serve", tiny.path(), "--port", "0"], flags.as_slice()].concat());
        let line = support::failure(&output, code);
        assert!(line.contains(word), "{line}");
    }
}

/// The events of a stream, as far as it came.
fn events(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

fn text_and_ids(events: &[Value]) -> (String, Vec<Value>) {
    let choices = || events.iter().filter_map(|event| event["choices"].get(0));
    let text = choices().filter_map(|choice| choice["text"].as_str()).collect();
    (text, choices().filter_map(|choice| choice["token_ids"].as_array()).flatten().cloned().collect())
}

/// A node is killed in the middle of a stream; the other one goes on, and the text is the same.
#[test]
fn a_stream_of_a_node_that_is_killed_goes_on_on_another() {
    let tiny = Tiny::new();
    let (first, second) = (Server::start(&tiny, &[]), Server::start(&tiny, &["--threads", "1"]));
    let node = |server: &Server| {
        let (_, body) = read(server.request("GET", "/v1/node", "", ""));
        NodeRecord::parse(body.as_bytes()).unwrap()
    };
    assert_eq!(node(&first).models[0].fingerprint, node(&second).models[0].fingerprint);
    let mut body = json!({
        "prompt": Tiny::prompt(), "max_tokens": 120, "temperature": 1, "seed": 5, "ignore_eos": true,
        "frequency_penalty": 0.3, "stream": true, "return_token_ids": true
    });
    let (status, whole) = read(second.request("POST", "/v1/completions", "", &body.to_string()));
    let (undisturbed, ids) = text_and_ids(&events(&whole[..]));
    assert_eq!((status, ids.len()), (200, 120));
    let mut stream = BufReader::new(first.request("POST", "/v1/completions", "", &body.to_string()));
    let mut came = String::new();
    while events(&came).len() < 7 {
        assert!(stream.read_line(&mut came).unwrap() > 0, "{came}");
    }
    first.signal("-KILL");
    // What was on its way still comes; half an event does not count.
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    came.push_str(&String::from_utf8_lossy(&rest));
    let (mut text, ids) = text_and_ids(&events(&came));
    body["resume"] = json!({"token_ids": ids});
    let (status, more) = read(second.request("POST", "/v1/completions", "", &body.to_string()));
    assert_eq!(status, 200, "{more}");
    text.push_str(&text_and_ids(&events(&more)).0);
    assert_eq!(text, undisturbed);
}
