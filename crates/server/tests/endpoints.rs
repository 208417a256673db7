//! Anthropic's Messages, OpenAI's Responses, and the ways between text and tokens.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::frame;

use std::time::{Duration, Instant};

use frame::{Answer, Running, merge, options, ready};
use serde_json::{Value, json};
use server::{Keys, Options};

const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";

fn message(server: &Running, extra: Value) -> Answer {
    let mut body = json!({
        "model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 12, "temperature": 0
    });
    merge(&mut body, extra);
    server.post(MESSAGES, &body)
}

fn response(server: &Running, extra: Value) -> Answer {
    let mut body = json!({"model": "tiny", "input": "hello", "max_output_tokens": 12, "temperature": 0});
    merge(&mut body, extra);
    server.post(RESPONSES, &body)
}

/// Names and data of a stream's events.
fn named(answer: &Answer) -> Vec<(String, Value)> {
    let blocks = answer.body.split("\n\n").filter(|b| !b.is_empty() && !b.starts_with(": "));
    let event = |block: &str| {
        let (name, data) = block.split_once('\n').unwrap_or_else(|| panic!("{block:?}"));
        let name = name.strip_prefix("event: ").unwrap().to_owned();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(data["type"], name.as_str());
        (name, data)
    };
    blocks.map(event).filter(|(name, _)| name != "ping").collect()
}

#[test]
fn a_message_says_what_a_chat_says() {
    let server = ready(options(), Duration::ZERO);
    let chat = server.chat(json!({})).json();
    let answer = message(&server, json!({}));
    let said = answer.json();
    assert_eq!((answer.status, &said["type"], &said["role"]), (200, &json!("message"), &json!("assistant")));
    assert!(said["id"].as_str().unwrap().starts_with("msg_"));
    assert_eq!(said["content"], json!([{"type": "text", "text": chat["choices"][0]["message"]["content"]}]));
    let ended = if chat["choices"][0]["finish_reason"] == "length" { "max_tokens" } else { "end_turn" };
    assert_eq!((&said["stop_reason"], &said["stop_sequence"]), (&json!(ended), &Value::Null));
    let usage = &said["usage"];
    let read = usage["input_tokens"].as_u64().unwrap() + usage["cache_read_input_tokens"].as_u64().unwrap();
    assert_eq!(read, chat["usage"]["prompt_tokens"].as_u64().unwrap());
    assert_eq!(usage["output_tokens"], chat["usage"]["completion_tokens"]);
    let count = server
        .post("/v1/messages/count_tokens", &json!({"messages": [{"role": "user", "content": "hello"}]}));
    assert_eq!(count.json(), json!({"input_tokens": read}));
}

#[test]
fn a_streamed_message_adds_up() {
    let server = ready(options(), Duration::ZERO);
    let whole = message(&server, json!({})).json();
    let answer = message(&server, json!({"stream": true}));
    let events = named(&answer);
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[..2], ["message_start", "content_block_start"]);
    assert_eq!(names[names.len() - 3..], ["content_block_stop", "message_delta", "message_stop"]);
    let deltas = events.iter().filter(|(name, _)| name == "content_block_delta");
    let text: String = deltas.map(|(_, e)| e["delta"]["text"].as_str().unwrap()).collect();
    assert_eq!(whole["content"][0]["text"], text);
    let last = &events[names.len() - 2].1;
    assert_eq!(last["delta"]["stop_reason"], whole["stop_reason"]);
    assert_eq!(last["usage"]["output_tokens"], whole["usage"]["output_tokens"]);
}

#[test]
fn refused_messages_have_anthropics_shape() {
    let mut keys = Keys::default();
    keys.add("secret").unwrap();
    let server = ready(
        Options { http: httpd::Options { keys, ..httpd::Options::default() }, ..options() },
        Duration::ZERO,
    );
    let ask = |header: (&str, &str), body: Value| {
        let headers = [("content-type", "application/json"), header];
        server.send("POST", MESSAGES, &headers, body.to_string().as_bytes())
    };
    let good = json!({"max_tokens": 3, "messages": [{"role": "user", "content": "hello"}]});
    assert_eq!(ask(("x-api-key", "secret"), good.clone()).status, 200);
    for (header, body, status, kind) in [
        (("x-api-key", "wrong"), good.clone(), 401, "authentication_error"),
        (("x-api-key", "secret"), json!({"messages": []}), 400, "invalid_request_error"),
        (
            ("x-api-key", "secret"),
            json!({"model": "gpt", "max_tokens": 1, "messages": good["messages"]}),
            404,
            "not_found_error",
        ),
    ] {
        let answer = ask(header, body);
        let json = answer.json();
        assert_eq!(
            (answer.status, &json["type"], &json["error"]["type"]),
            (status, &json!("error"), &json!(kind))
        );
    }
}

#[test]
fn a_response_is_made_kept_and_gone_on_from() {
    let server = ready(options(), Duration::ZERO);
    let answer = response(&server, json!({"instructions": "be brief", "metadata": {"a": "b"}}));
    let first = answer.json();
    assert_eq!((answer.status, &first["object"], &first["error"]), (200, &json!("response"), &Value::Null));
    assert_eq!((&first["metadata"], &first["instructions"]), (&json!({"a": "b"}), &json!("be brief")));
    let id = first["id"].as_str().unwrap();
    let item = &first["output"][0];
    let text = item["content"][0]["text"].as_str().unwrap();
    assert_eq!(
        (&item["type"], &item["role"], text.is_empty()),
        (&json!("message"), &json!("assistant"), false)
    );
    assert_eq!(
        first["usage"]["output_tokens"],
        first["usage"]["total_tokens"].as_u64().unwrap() - first["usage"]["input_tokens"].as_u64().unwrap()
    );
    assert_eq!(server.get(&format!("{RESPONSES}/{id}")).json(), first);
    // What comes next is what a chat with the same turns would say; instructions are not handed on.
    let second = response(&server, json!({"input": "and", "previous_response_id": id})).json();
    let chat = server.chat(json!({"messages": [
        {"role": "user", "content": "hello"}, {"role": "assistant", "content": text}, {"role": "user", "content": "and"}
    ]}));
    assert_eq!(second["output"][0]["content"][0]["text"], chat.json()["choices"][0]["message"]["content"]);
    assert_eq!(second["previous_response_id"], id);
    let gone = server.send("DELETE", &format!("{RESPONSES}/{id}"), &[], b"");
    assert_eq!(gone.json(), json!({"id": id, "object": "response", "deleted": true}));
    for answer in [
        server.get(&format!("{RESPONSES}/{id}")),
        server.send("POST", &format!("{RESPONSES}/{id}/cancel"), &[], b""),
        response(&server, json!({"previous_response_id": id})),
    ] {
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (404, &json!("response_not_found")));
    }
    let passing = response(&server, json!({"store": false})).json();
    assert_eq!(server.get(&format!("{RESPONSES}/{}", passing["id"].as_str().unwrap())).status, 404);
}

#[test]
fn a_streamed_response_adds_up() {
    let server = ready(options(), Duration::ZERO);
    let whole = response(&server, json!({})).json();
    let events = named(&response(&server, json!({"stream": true})));
    let names: Vec<&str> = events.iter().map(|(name, _)| name.strip_prefix("response.").unwrap()).collect();
    assert_eq!(names[..4], ["created", "in_progress", "output_item.added", "content_part.added"]);
    let end = [
        "output_text.done",
        "content_part.done",
        "output_item.done",
        if whole["status"] == "incomplete" { "incomplete" } else { "completed" },
    ];
    assert_eq!(names[names.len() - 4..], end);
    let numbers = events.iter().map(|(_, e)| e["sequence_number"].as_u64().unwrap());
    assert!(numbers.eq(0..events.len() as u64), "events are numbered in order");
    let deltas = events.iter().filter(|(name, _)| name == "response.output_text.delta");
    let text: String = deltas.map(|(_, e)| e["delta"].as_str().unwrap()).collect();
    let last = &events.last().unwrap().1["response"];
    assert_eq!(
        (&json!(text), &last["status"]),
        (&whole["output"][0]["content"][0]["text"], &whole["status"])
    );
    assert_eq!(last["output"][0]["content"], whole["output"][0]["content"]);
    assert_eq!(server.get(&format!("{RESPONSES}/{}", last["id"].as_str().unwrap())).json(), *last);
}

#[test]
fn a_response_in_the_background_is_asked_for_and_cancelled() {
    let server = ready(options(), Duration::from_millis(20));
    let ask = |extra: Value| {
        let begun = response(&server, extra).json();
        assert_eq!((&begun["status"], &begun["output"]), (&json!("in_progress"), &json!([])));
        begun["id"].as_str().unwrap().to_owned()
    };
    let status = |id: &str| server.get(&format!("{RESPONSES}/{id}")).json()["status"].clone();
    let short = ask(json!({"background": true, "max_output_tokens": 2, "ignore_eos": true}));
    let end = Instant::now() + Duration::from_secs(10);
    while status(&short) == "in_progress" {
        assert!(Instant::now() < end, "it ends");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(status(&short), "incomplete");
    let long = ask(json!({"background": true, "max_output_tokens": 70, "ignore_eos": true}));
    let cancelled = server.send("POST", &format!("{RESPONSES}/{long}/cancel"), &[], b"").json();
    assert_eq!((&cancelled["status"], status(&long)), (&json!("cancelled"), json!("cancelled")));
    server.until("its place is free", |s| s.running == 0 && s.cancelled == 1);
    assert_eq!(status(&long), "cancelled");
    let wrong = response(&server, json!({"background": true, "stream": true}));
    assert_eq!((wrong.status, &wrong.json()["error"]["param"]), (400, &json!("background")));
}

#[test]
fn between_text_and_tokens() {
    let server = ready(options(), Duration::ZERO);
    let tokens = server.post("/tokenize", &json!({"prompt": "abc", "return_token_strs": true})).json();
    assert_eq!(
        tokens,
        json!({"count": 4, "max_model_len": 96, "tokens": [26, 1, 2, 3], "token_strs": ["z", "a", "b", "c"]})
    );
    assert_eq!(server.post("/tokenize", &json!({"content": "abc"})).json()["tokens"], json!([1, 2, 3]));
    let text = server.post("/detokenize", &json!({"tokens": [1, 2, 3]})).json();
    assert_eq!((&text["prompt"], &text["content"]), (&json!("abc"), &json!("abc")));
    let messages = json!({"messages": [{"role": "user", "content": "hello"}]});
    let prompt = server.post("/apply-template", &messages).json();
    assert_eq!(prompt["prompt"], "userhelloassistant");
    assert_eq!(server.post("/tokenize", &messages).json()["count"], 18);
    assert_eq!(server.get("/version").json()["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(server.get("/props").json()["default_generation_settings"]["n_ctx"], 96);
    assert_eq!(server.post("/tokenize", &json!({"prompt": "a", "model": "gpt"})).status, 404);
}
