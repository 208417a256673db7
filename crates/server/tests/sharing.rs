//! Requests beside one another: what they share, what they must not, and how long they may take.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::frame;

use std::time::Duration;

use engine::Limits;
use engine::fake::FakeModel;
use frame::{Answer, CONTEXT, Running, VOCAB, chat_body, options, paced, ready, ready_with};
use serde_json::{Value, json};
use server::{Keys, Options};

const CHAT: &str = "/v1/chat/completions";

/// A server whose blocks hold four tokens.
fn small_blocks(options: Options) -> Running {
    ready_with(options, FakeModel::new(VOCAB, CONTEXT, 200, 4), Limits::default())
}

fn cached(answer: &Answer) -> u64 {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
}

fn said(answer: &Answer) -> Value {
    answer.json()["choices"].clone()
}

#[test]
fn a_warm_cache_changes_the_time_and_not_the_text() {
    let server = small_blocks(options());
    // "userhello" and "assistant": 18 letters, of which four full blocks can be kept and the last token is computed.
    let cold = server.chat(json!({}));
    let warm = server.chat(json!({}));
    assert_eq!((cached(&cold), cached(&warm)), (0, 16));
    assert_eq!(said(&cold), said(&warm));
    let others = [json!({"cache_salt": "mine"}), json!({"cache_salt": "yours"})].map(|b| server.chat(b));
    assert_eq!(others.each_ref().map(cached), [0, 0], "a salt of one's own shares with nobody");
    assert_eq!(cached(&server.chat(json!({"cache_salt": "mine"}))), 16);
    let metrics = server.get("/metrics").body;
    for line in ["vllm:prefix_cache_queries_total{M} 90", "vllm:prefix_cache_hits_total{M} 32"] {
        let line = line.replace('M', r#"model_name="tiny",engine="0""#);
        assert!(metrics.lines().any(|l| l == line), "{line}\nin\n{metrics}");
    }
}

#[test]
fn a_conversation_computes_what_is_new() {
    let server = small_blocks(options());
    let mut messages = vec![json!({"role": "user", "content": "tell me of the mill"})];
    let first = server.chat(json!({"messages": messages}));
    messages.push(first.json()["choices"][0]["message"].clone());
    messages.push(json!({"role": "user", "content": "and of the miller"}));
    let second = server.chat(json!({"messages": messages, "max_tokens": 4}));
    let usage = &second.json()["usage"];
    let (prompt, kept) = (usage["prompt_tokens"].as_u64().unwrap(), cached(&second));
    assert!(kept >= 24 && kept < prompt, "{kept} of {prompt}: the answer before is kept as well");
}

#[test]
fn one_key_never_learns_from_the_time_of_anothers_requests() {
    let mut keys = Keys::default();
    keys.add_lines("alpha\nbeta").unwrap();
    let server =
        small_blocks(Options { http: httpd::Options { keys, ..httpd::Options::default() }, ..options() });
    let ask = |key: &str| {
        let headers = [("content-type", "application/json"), ("authorization", key)];
        let answer = server.send("POST", CHAT, &headers, chat_body(json!({})).to_string().as_bytes());
        cached(&answer)
    };
    assert_eq!([ask("Bearer alpha"), ask("Bearer beta")], [0, 0]);
    assert_eq!([ask("Bearer alpha"), ask("Bearer beta")], [16, 16]);
}

#[test]
fn a_request_ends_when_its_own_time_is_over() {
    let server = ready(options(), Duration::from_millis(20));
    let long = json!({"max_tokens": 78, "ignore_eos": true, "timeout": 0.2});
    let answer = server.chat(long.clone());
    let error = answer.json()["error"].clone();
    assert_eq!((answer.status, &error["code"]), (408, &json!("time_limit_exceeded")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("200ms"), "{error}");
    let mut streamed = long;
    streamed["stream"] = json!(true);
    let events = server.chat(streamed).events();
    assert!(events.len() > 3);
    assert_eq!(events.last().unwrap()["error"]["code"], "time_limit_exceeded");
    let header = [("content-type", "application/json"), ("x-request-timeout", "0.1")];
    let body = chat_body(json!({"max_tokens": 78, "ignore_eos": true})).to_string();
    assert_eq!(server.send("POST", CHAT, &header, body.as_bytes()).status, 408);
    let wrong = [("content-type", "application/json"), ("x-request-timeout", "soon")];
    let answer = server.send("POST", CHAT, &wrong, body.as_bytes());
    assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!("x-request-timeout")));
    server.until("everything is over", |s| s.running == 0 && s.failed == 3);
}

#[test]
fn what_is_urgent_comes_before_what_is_not() {
    let limits = Limits { max_running: 1, ..Limits::default() };
    let server = ready_with(
        options(),
        paced(FakeModel::new(VOCAB, CONTEXT, 64, 32), Duration::from_millis(15)),
        limits,
    );
    let ask = |priority: &'static str| json!({"max_tokens": 30, "ignore_eos": true, "priority": priority, "stream": true});
    let first = server.open(CHAT, &chat_body(ask("batch")));
    server.until("the first runs", |s| s.running == 1);
    let began = std::time::Instant::now();
    let urgent = server.chat(ask("interactive"));
    let (took, ended) = (began.elapsed(), urgent.events().len());
    let mut first = first;
    let batch = Answer::read(&mut first);
    assert!(ended > 20 && batch.events().len() > 20, "both are answered");
    assert_eq!(server.stats().preemptions, 0, "the batch work rested");
    assert!(began.elapsed() > took, "and ended after");
}
