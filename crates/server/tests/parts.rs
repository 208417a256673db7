//! Thoughts and tool calls over HTTP: a model that says what its script says, whole and in a stream.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::frame;

use frame::script::saying;
use serde_json::{Value, json};

const SCRIPT: &str = "<think>Two cities.</think>\n\nI look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";

fn body(extra: Value) -> Value {
    let tool = json!({"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}});
    let mut body = json!({"max_tokens": 400, "tools": [tool]});
    frame::merge(&mut body, extra);
    body
}

/// The message that a stream's deltas add up to, and its finish reason.
fn added_up(events: &[Value]) -> (Value, Value) {
    let (mut content, mut thought, mut calls, mut reason) =
        (String::new(), String::new(), Vec::new(), Value::Null);
    for choice in events.iter().filter_map(|event| event["choices"].get(0)) {
        let delta = &choice["delta"];
        content.push_str(delta["content"].as_str().unwrap_or_default());
        thought.push_str(delta["reasoning_content"].as_str().unwrap_or_default());
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
            if index == calls.len() {
                assert!(call["id"].is_string() && call["type"] == "function", "{call}");
                calls.push((call["function"]["name"].clone(), String::new()));
            }
            calls[index].1.push_str(call["function"]["arguments"].as_str().unwrap());
        }
        if !choice["finish_reason"].is_null() {
            reason = choice["finish_reason"].clone();
        }
    }
    (json!({"content": content, "thought": thought, "calls": calls}), reason)
}

fn of_message(message: &Value) -> Value {
    let calls: Vec<Value> = message["tool_calls"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|call| json!([call["function"]["name"], call["function"]["arguments"]]))
        .collect();
    json!({
        "content": message["content"].as_str().unwrap_or_default(),
        "thought": message["reasoning_content"].as_str().unwrap_or_default(),
        "calls": calls,
    })
}

#[test]
fn thoughts_and_calls_are_told_apart() {
    let server = saying(SCRIPT);
    let whole = server.chat(body(json!({}))).json();
    let choice = &whole["choices"][0];
    let expected = json!({
        "content": "I look.", "thought": "Two cities.",
        "calls": [["weather", "{\"city\": \"Rome\"}"], ["weather", "{\"city\": \"Oslo\"}"]],
    });
    assert_eq!(of_message(&choice["message"]), expected, "{whole}");
    assert_eq!(choice["finish_reason"], "tool_calls");
    let ids: Vec<&str> = choice["message"]["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["id"].as_str().unwrap())
        .collect();
    assert!(ids[0] != ids[1] && ids[0].starts_with("call_"), "{ids:?}");
    let events = server.chat(body(json!({"stream": true, "logprobs": true}))).events();
    assert_eq!(added_up(&events), (expected, json!("tool_calls")));
    // Each token but the end is scored once, wherever its text went.
    let scored: usize =
        events.iter().filter_map(|e| e["choices"][0]["logprobs"]["content"].as_array()).map(Vec::len).sum();
    assert_eq!(scored, SCRIPT.len());
}

#[test]
fn what_is_asked_for_is_told() {
    let server = saying(SCRIPT);
    let told = |extra: Value| {
        let whole = server.chat(body(extra.clone())).json();
        let mut streamed = extra;
        frame::merge(&mut streamed, json!({"stream": true}));
        let whole =
            (of_message(&whole["choices"][0]["message"]), whole["choices"][0]["finish_reason"].clone());
        assert_eq!(added_up(&server.chat(body(streamed)).events()), whole);
        whole
    };
    let (quiet, _) = told(json!({"include_reasoning": false, "parallel_tool_calls": false}));
    assert_eq!(
        quiet,
        json!({"content": "I look.", "thought": "", "calls": [["weather", "{\"city\": \"Rome\"}"]]})
    );
    let (plain, reason) = told(json!({"tool_choice": "none"}));
    assert!(plain["content"].as_str().unwrap().contains("</tool_call>"), "{plain}");
    assert_eq!((&plain["calls"], reason), (&json!([]), json!("stop")));
    let (cut, reason) = told(json!({"max_tokens": 100}));
    assert_eq!(reason, "length");
    assert!(cut["calls"][0][1].as_str().unwrap().starts_with("{\"ci"), "{cut}");
}

#[test]
fn a_language_that_cannot_be_constrained_says_so() {
    let server = saying("x");
    for (extra, param) in [
        (json!({"response_format": {"type": "json_object"}}), "response_format"),
        (json!({"tool_choice": "required"}), "tools"),
        (json!({"thinking_token_budget": 5}), "thinking_token_budget"),
    ] {
        let answer = server.chat(body(extra));
        assert_eq!(answer.status, 400);
        assert_eq!(answer.json()["error"]["param"], param);
    }
}

#[test]
fn fault_13_a_fenced_call_is_a_call_whole_and_streamed() {
    let server = saying("```json\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n```");
    let expected = json!({"content": "", "thought": "", "calls": [["weather", "{\"city\":\"Rome\"}"]]});
    let whole = server.chat(body(json!({}))).json();
    assert_eq!(of_message(&whole["choices"][0]["message"]), expected, "{whole}");
    assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");
    let events = server.chat(body(json!({"stream": true}))).events();
    assert_eq!(added_up(&events), (expected, json!("tool_calls")));
    let tool = json!({"name": "weather", "input_schema": {"type": "object"}});
    let turn = json!({"role": "user", "content": "x"});
    let body = json!({"model": "tiny", "max_tokens": 400, "tools": [tool], "messages": [turn]});
    let message = server.post("/v1/messages", &body).json();
    assert_eq!(
        (&message["content"][0]["input"], &message["stop_reason"]),
        (&json!({"city": "Rome"}), &json!("tool_use"))
    );
}

#[test]
fn fault_09_calls_come_back_as_what_the_request_has() {
    let server = saying(
        "<tool_call>\n{\"name\": \"files__edit\", \"arguments\": {\"input\": \"*** é\"}}\n</tool_call>",
    );
    let edit = json!({"type": "custom", "name": "edit", "description": "Edits."});
    let tools = json!([{"type": "namespace", "name": "files", "tools": [edit]}, {"type": "web_search"}]);
    let mut body = json!({"model": "tiny", "input": "x", "tools": tools, "max_output_tokens": 400});
    let answer = server.post("/v1/responses", &body);
    let warning = answer.header("x-gristmill-warning").unwrap_or_default().to_owned();
    assert!(warning.contains("web_search"), "{warning}");
    let response = answer.json();
    let item = &response["output"][0];
    assert_eq!((&item["type"], &item["name"]), (&json!("custom_tool_call"), &json!("edit")));
    // The test's vocabulary has bytes for letters.
    assert!(item["namespace"] == "files" && item["input"].as_str().unwrap().starts_with("*** "), "{item}");
    let id = response["id"].as_str().unwrap();
    let list = server.get(&format!("/v1/responses/{id}/input_items?limit=1")).json();
    assert_eq!((&list["data"][0]["role"], &list["has_more"]), (&json!("user"), &json!(false)));
    assert_eq!(server.get("/v1/responses/resp_no/input_items").status, 404);
    let none = server.get("/v1/conversations/conv_1/items");
    assert!(
        none.status == 404
            && none.json()["error"]["message"].as_str().unwrap().contains("previous_response_id")
    );
    frame::merge(&mut body, json!({"stream": true}));
    let stream = server.post("/v1/responses", &body).body;
    for kind in ["custom_tool_call_input.delta", "custom_tool_call_input.done", "response.completed"] {
        assert!(stream.contains(kind), "{kind}: {stream}");
    }
    assert!(!stream.contains("function_call_arguments"), "{stream}");
}

#[test]
fn said_badly_a_cut_call_leaves_no_tag_in_the_content() {
    let at = SCRIPT.find("{\"name").unwrap() + 4;
    let server = saying(SCRIPT);
    let whole = server.chat(body(json!({"max_tokens": at}))).json();
    let choice = &whole["choices"][0];
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"]),
        (&json!("I look."), &json!("length"))
    );
    assert!(choice["message"].get("tool_calls").is_none(), "{whole}");
}
