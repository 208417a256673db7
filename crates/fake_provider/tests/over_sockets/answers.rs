//! Answers and streams of every dialect carry the same text and usage.

use crate::client::{CHAT, Got, chat, open, post, read};
use fake_provider::{Dialect, Outcome, Provider, Reply, Script, answer_words, prompt_tokens};
use serde_json::{Value, json};
use std::time::Duration;

const PROMPT: &str = "What does a mill do?";

fn body(dialect: Dialect, stream: bool) -> Value {
    let messages = json!([{"role": "user", "content": PROMPT}]);
    match dialect {
        Dialect::Chat => json!({"model": "m", "stream": stream, "messages": messages,
            "stream_options": {"include_usage": true}}),
        Dialect::Completions => json!({"model": "m", "stream": stream, "prompt": PROMPT,
            "stream_options": {"include_usage": true}}),
        Dialect::Responses => json!({"model": "m", "stream": stream, "input": PROMPT}),
        Dialect::Messages => json!({"model": "m", "stream": stream, "messages": messages, "max_tokens": 100}),
        Dialect::Gemini => json!({"contents": [{"role": "user", "parts": [{"text": PROMPT}]}]}),
        Dialect::Embeddings => json!({"model": "m", "input": [PROMPT, "x"]}),
    }
}

fn path(dialect: Dialect, stream: bool) -> &'static str {
    match (dialect, stream) {
        (Dialect::Chat, _) => CHAT,
        (Dialect::Completions, _) => "/v1/completions",
        (Dialect::Responses, _) => "/v1/responses",
        (Dialect::Messages, _) => "/v1/messages",
        (Dialect::Embeddings, _) => "/v1/embeddings",
        (Dialect::Gemini, false) => "/v1beta/models/m:generateContent",
        (Dialect::Gemini, true) => "/v1beta/models/m:streamGenerateContent?alt=sse",
    }
}

/// The text and the usage (prompt, cached, output) of an answer.
fn whole_of(dialect: Dialect, value: &Value) -> (String, [u64; 3]) {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
    let count = |pointer: &str| value.pointer(pointer).and_then(Value::as_u64).unwrap();
    let openai = || {
        ["/usage/prompt_tokens", "/usage/prompt_tokens_details/cached_tokens", "/usage/completion_tokens"]
            .map(count)
    };
    match dialect {
        Dialect::Chat => (text("/choices/0/message/content"), openai()),
        Dialect::Completions => (text("/choices/0/text"), openai()),
        Dialect::Responses => (
            text("/output/0/content/0/text"),
            ["/usage/input_tokens", "/usage/input_tokens_details/cached_tokens", "/usage/output_tokens"]
                .map(count),
        ),
        Dialect::Messages => {
            let cached = count("/usage/cache_read_input_tokens");
            let usage = [count("/usage/input_tokens") + cached, cached, count("/usage/output_tokens")];
            (text("/content/0/text"), usage)
        }
        Dialect::Gemini => (
            text("/candidates/0/content/parts/0/text"),
            ["promptTokenCount", "cachedContentTokenCount", "candidatesTokenCount"]
                .map(|name| count(&format!("/usageMetadata/{name}"))),
        ),
        Dialect::Embeddings => unreachable!("has no text"),
    }
}

/// The same of a stream.
fn stream_of(dialect: Dialect, got: &Got) -> (String, [u64; 3]) {
    let events = got.events();
    let part = match dialect {
        Dialect::Chat => "/choices/0/delta/content",
        Dialect::Completions => "/choices/0/text",
        Dialect::Responses => "/delta",
        Dialect::Messages => "/delta/text",
        _ => "/candidates/0/content/parts/0/text",
    };
    let text = events.iter().filter_map(|event| event.pointer(part)).filter_map(Value::as_str).collect();
    let last = |has: &str| events.iter().rev().find(|event| event.pointer(has).is_some_and(|v| !v.is_null()));
    let counted = match dialect {
        Dialect::Chat | Dialect::Completions => {
            let mut value = last("/usage").unwrap().clone();
            value["choices"] = json!([{"message": {"content": ""}, "text": ""}]);
            value
        }
        Dialect::Responses => last("/response/usage").unwrap()["response"].clone(),
        Dialect::Messages => {
            let mut value = last("/usage").unwrap().clone();
            value["content"] = json!([{"text": ""}]);
            value
        }
        _ => last("/usageMetadata").unwrap().clone(),
    };
    (text, whole_of(dialect, &counted).1)
}

const WITH_TEXT: [Dialect; 5] =
    [Dialect::Chat, Dialect::Completions, Dialect::Responses, Dialect::Messages, Dialect::Gemini];

#[tokio::test]
async fn every_dialect_says_the_same_whole_and_streamed() {
    let script = Script { cached_tokens: 2, ..Script::new().seed(5).tokens(7) };
    let provider = Provider::start(script).await.unwrap();
    let text = answer_words(5, PROMPT, 7).concat();
    let usage = [prompt_tokens(PROMPT), 2, 7];
    for dialect in WITH_TEXT {
        let got = post(provider.addr(), path(dialect, false), &body(dialect, false)).await;
        assert!(got.whole && got.head.contains("application/json"), "{dialect:?}: {}", got.head);
        assert_eq!(whole_of(dialect, &got.json()), (text.clone(), usage), "{dialect:?}");
        let got = post(provider.addr(), path(dialect, true), &body(dialect, true)).await;
        assert!(got.whole && got.head.contains("text/event-stream"), "{dialect:?}: {}", got.head);
        assert_eq!(stream_of(dialect, &got), (text.clone(), usage), "{dialect:?} streamed");
    }
    let log = provider.log();
    assert_eq!(log.len(), 10);
    for record in log {
        assert_eq!(record.outcome, Outcome::Completed);
        assert_eq!([record.usage.prompt, record.usage.cached, record.usage.output], usage);
        assert_eq!((record.model.as_str(), record.status), ("m", 200));
    }
}

#[tokio::test]
async fn usage_of_a_stream_is_for_those_who_ask() {
    let provider = Provider::start(Script::new()).await.unwrap();
    let got = post(provider.addr(), CHAT, &chat("hi", true)).await;
    assert!(got.body.ends_with("data: [DONE]\n\n"));
    assert!(!got.body.contains("usage"), "{}", got.body);
}

#[tokio::test]
async fn a_limit_ends_an_answer_with_its_reason() {
    let provider = Provider::start(Script::new().tokens(50)).await.unwrap();
    let mut body = chat("hi", false);
    body["max_completion_tokens"] = json!(3);
    let value = post(provider.addr(), CHAT, &body).await.json();
    assert_eq!(value["choices"][0]["finish_reason"], "length");
    assert_eq!(value["usage"]["completion_tokens"], 3);
}

#[tokio::test]
async fn a_tool_is_called_in_every_dialect() {
    let arguments = json!({"city": "Ulm", "days": 2});
    let reply = Reply::Tool { name: "weather".to_owned(), arguments: arguments.to_string() };
    let provider = Provider::start(Script::new().reply(reply)).await.unwrap();
    for (dialect, pointer) in [
        (Dialect::Chat, "/choices/0/message/tool_calls/0/function/arguments"),
        (Dialect::Responses, "/output/0/arguments"),
        (Dialect::Messages, "/content/0/input"),
        (Dialect::Gemini, "/candidates/0/content/parts/0/functionCall/args"),
    ] {
        let mut body = body(dialect, false);
        body["tools"] = json!([{"name": "weather"}]);
        let value = post(provider.addr(), path(dialect, false), &body).await.json();
        let given = value.pointer(pointer).unwrap_or_else(|| panic!("{value}"));
        let given = given.as_str().map_or(given.clone(), |text| serde_json::from_str(text).unwrap());
        assert_eq!(given, arguments, "{dialect:?}");
    }
    let mut body = body(Dialect::Chat, true);
    body["tools"] = json!([{"name": "weather"}]);
    let got = post(provider.addr(), CHAT, &body).await;
    let pieces = got.events().into_iter().filter_map(|event| {
        event.pointer("/choices/0/delta/tool_calls/0/function/arguments")?.as_str().map(str::to_owned)
    });
    assert_eq!(pieces.collect::<String>(), arguments.to_string());
    // Without tools there is nothing to call.
    let value = post(provider.addr(), CHAT, &chat("hi", false)).await.json();
    assert_eq!(value["choices"][0]["finish_reason"], "stop");
}

#[tokio::test]
async fn gemini_without_events_is_an_array() {
    let provider = Provider::start(Script::new().tokens(3)).await.unwrap();
    let body = body(Dialect::Gemini, true);
    let value = post(provider.addr(), "/v1beta/models/m:streamGenerateContent", &body).await.json();
    assert_eq!(value.as_array().unwrap().len(), 4);
    assert_eq!(value[3]["candidates"][0]["finishReason"], "STOP");
}

#[tokio::test]
async fn embeddings_are_numbers_or_base64() {
    let provider = Provider::start(Script::new()).await.unwrap();
    let mut body = body(Dialect::Embeddings, false);
    let value = post(provider.addr(), "/v1/embeddings", &body).await.json();
    assert_eq!(value["data"][1]["embedding"].as_array().unwrap().len(), 8);
    body["encoding_format"] = json!("base64");
    body["dimensions"] = json!(3);
    let value = post(provider.addr(), "/v1/embeddings", &body).await.json();
    assert_eq!(value["data"][0]["embedding"].as_str().unwrap().len(), 16);
}

#[tokio::test]
async fn keys_models_and_concurrency_are_checked() {
    let script = Script {
        key: Some("k".to_owned()),
        models: vec!["m".to_owned()],
        max_concurrent: 1,
        ..Script::new().pace(200, 0)
    };
    let provider = Provider::start(script).await.unwrap();
    let body = chat("hi", false).to_string();
    let mut status = Vec::new();
    for headers in ["", "authorization: Bearer k\r\n", "x-api-key: k\r\n", "x-goog-api-key: no\r\n"] {
        let mut stream = open(provider.addr(), "POST", CHAT, headers, &body).await;
        status.push(read(&mut stream, Duration::from_secs(20)).await.status());
    }
    assert_eq!(status, [401, 200, 200, 401]);
    let other = body.replace("\"m\"", "\"other\"");
    let mut stream = open(provider.addr(), "POST", CHAT, "api-key: k\r\n", &other).await;
    assert_eq!(read(&mut stream, Duration::from_secs(20)).await.status(), 404);
    let one = async {
        let mut stream = open(provider.addr(), "POST", CHAT, "api-key: k\r\n", &body).await;
        read(&mut stream, Duration::from_secs(20)).await.status()
    };
    let two = async {
        while provider.totals().running == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut stream = open(provider.addr(), "POST", CHAT, "api-key: k\r\n", &body).await;
        read(&mut stream, Duration::from_secs(20)).await.status()
    };
    assert_eq!(tokio::join!(one, two), (200, 429));
}

#[tokio::test]
async fn programs_read_and_change_its_state() {
    let provider = Provider::start(Script::new()).await.unwrap();
    let mut stream = open(provider.addr(), "PUT", "/_fake/script", "", "tokens = 2").await;
    assert_eq!(read(&mut stream, Duration::from_secs(20)).await.status(), 200);
    let value = post(provider.addr(), CHAT, &chat("hi", false)).await.json();
    assert_eq!(value["usage"]["completion_tokens"], 2);
    let mut stream = open(provider.addr(), "GET", "/_fake/totals", "", "").await;
    assert_eq!(read(&mut stream, Duration::from_secs(20)).await.json()["completed"], 1);
    let mut stream = open(provider.addr(), "PUT", "/_fake/script", "", "tokens = \"x\"").await;
    assert_eq!(read(&mut stream, Duration::from_secs(20)).await.status(), 400);
}

#[tokio::test]
async fn equal_requests_may_be_repeated_and_are_counted() {
    let provider = Provider::start(Script { repeat: true, ..Script::new() }).await.unwrap();
    let mut bodies = Vec::new();
    for text in ["a", "a", "b", "a"] {
        let got = post(provider.addr(), CHAT, &chat(text, false)).await;
        assert_eq!(got.json()["usage"]["completion_tokens"], 16);
        bodies.push(got.body);
    }
    assert_eq!(bodies[0], bodies[1]);
    assert!(bodies[2] != bodies[1] && bodies[3] != bodies[1], "only the last one is kept");
    let totals = provider.totals();
    assert_eq!((totals.attempts, totals.completed, totals.usage.output), (4, 4, 64));
}
