//! What good requests get.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::frame;

use std::collections::HashSet;
use std::time::Duration;

use frame::{options, ready};
use serde_json::{Value, json};

const NOW: Duration = Duration::ZERO;

#[test]
fn a_whole_chat_answer() {
    let server = ready(options(), NOW);
    let answer = server.chat(json!({"ignore_eos": true}));
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let json = answer.json();
    assert_eq!(json["object"], "chat.completion");
    assert_eq!(json["model"], "tiny");
    assert!(json["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert_eq!(json["choices"][0]["message"]["role"], "assistant");
    assert_eq!(json["choices"][0]["message"]["content"].as_str().unwrap().len(), 12);
    assert_eq!(json["choices"][0]["finish_reason"], "length");
    assert_eq!(json["choices"][0]["logprobs"], Value::Null);
    // "user" + "hello" + "assistant"
    assert_eq!(json["usage"]["prompt_tokens"], 18);
    assert_eq!(json["usage"]["completion_tokens"], 12);
    assert_eq!(json["usage"]["total_tokens"], 30);
}

#[test]
fn a_stream_says_the_same() {
    let server = ready(options(), NOW);
    for extra in
        [json!({}), json!({"ignore_eos": true, "max_tokens": 40}), json!({"seed": 4, "temperature": 1.5})]
    {
        let whole = server.chat(extra.clone()).json();
        let mut streamed = extra.clone();
        frame::merge(&mut streamed, json!({"stream": true, "stream_options": {"include_usage": true}}));
        let answer = server.chat(streamed);
        assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
        let events = answer.events();
        assert_eq!(events[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
        let text: String =
            events.iter().filter_map(|e| e["choices"][0]["delta"]["content"].as_str()).collect();
        assert_eq!(text, whole["choices"][0]["message"]["content"], "{extra}");
        let last = &events[events.len() - 1];
        assert_eq!((&last["choices"], &last["usage"]), (&json!([]), &whole["usage"]));
        let end = &events[events.len() - 2];
        assert_eq!(end["choices"][0]["finish_reason"], whole["choices"][0]["finish_reason"]);
        assert_eq!(end["choices"][0]["delta"], json!({}));
        let ids: HashSet<&str> = events.iter().map(|e| e["id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), 1);
        assert!(events.iter().all(|e| e["object"] == "chat.completion.chunk" && e.get("usage").is_some()));
    }
    let without = server.chat(json!({"stream": true})).events();
    assert!(without.iter().all(|e| e.get("usage").is_none() && e["choices"].as_array().unwrap().len() == 1));
}

#[test]
fn stops() {
    let server = ready(options(), NOW);
    let free = server.chat(json!({"ignore_eos": true, "max_tokens": 30})).json();
    let free = free["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let stop = &free[10..13];
    let before = &free[..free.find(stop).unwrap()];
    for stop in [json!(stop), json!(["nosuch", stop])] {
        let body = json!({"ignore_eos": true, "max_tokens": 30, "stop": stop});
        let json = server.chat(body.clone()).json();
        assert_eq!(json["choices"][0]["message"]["content"], before);
        assert_eq!(json["choices"][0]["finish_reason"], "stop");
        let mut streamed = body;
        streamed["stream"] = json!(true);
        let events = server.chat(streamed).events();
        let text: String =
            events.iter().filter_map(|e| e["choices"][0]["delta"]["content"].as_str()).collect();
        assert_eq!(text, before);
    }
    // The id of the first letter ends the answer before it begins.
    let id = u32::from(free.as_bytes()[0] - b'a') + 1;
    let json = server.chat(json!({"ignore_eos": true, "stop_token_ids": [id]})).json();
    assert_eq!(json["choices"][0]["message"]["content"], "");
    assert_eq!(json["choices"][0]["finish_reason"], "stop");
}

#[test]
fn logprobs_in_both_styles() {
    let server = ready(options(), NOW);
    let chat = server.chat(json!({"logprobs": true, "top_logprobs": 3, "ignore_eos": true})).json();
    let content = chat["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!(content.len(), 12);
    let text: String = content.iter().map(|r| r["token"].as_str().unwrap()).collect();
    assert_eq!(text, chat["choices"][0]["message"]["content"]);
    for record in content {
        let top = record["top_logprobs"].as_array().unwrap();
        assert_eq!(top.len(), 3);
        // Greedy takes the likeliest of what is allowed; probabilities fall and do not exceed 1.
        let p: Vec<f64> = top.iter().map(|t| t["logprob"].as_f64().unwrap()).collect();
        assert!(p[0] >= p[1] && p[1] >= p[2] && p[0] <= 0.0, "{p:?}");
        assert_eq!(record["bytes"], json!(record["token"].as_str().unwrap().as_bytes()));
    }
    let streamed = server
        .chat(json!({"logprobs": true, "top_logprobs": 3, "ignore_eos": true, "stream": true}))
        .events();
    let records: Vec<Value> = streamed
        .iter()
        .filter_map(|e| e["choices"][0]["logprobs"]["content"].as_array())
        .flatten()
        .cloned()
        .collect();
    assert_eq!(&records, content);

    let completion = server.completion(json!({"logprobs": 2, "ignore_eos": true})).json();
    let lists = &completion["choices"][0]["logprobs"];
    assert_eq!(lists["tokens"].as_array().unwrap().len(), 12);
    assert_eq!(lists["text_offset"], json!((0..12).collect::<Vec<_>>()));
    assert_eq!(lists["top_logprobs"][5].as_object().unwrap().len(), 2);
    let events = server.completion(json!({"logprobs": 2, "ignore_eos": true, "stream": true})).events();
    let offsets: Vec<Value> = events
        .iter()
        .filter_map(|e| e["choices"][0]["logprobs"]["text_offset"].as_array())
        .flatten()
        .cloned()
        .collect();
    assert_eq!(json!(offsets), lists["text_offset"]);
}

#[test]
fn several_answers() {
    let server = ready(options(), NOW);
    let body =
        json!({"n": 3, "seed": 11, "temperature": 2, "top_k": 0, "top_p": 1, "min_p": 0, "ignore_eos": true});
    let texts = |json: &Value| -> Vec<String> {
        let choices = json["choices"].as_array().unwrap();
        choices.iter().map(|c| c["message"]["content"].as_str().unwrap().to_owned()).collect()
    };
    let first = server.chat(body.clone()).json();
    let again = server.chat(body.clone()).json();
    assert_eq!(texts(&first), texts(&again));
    assert_eq!(texts(&first).iter().collect::<HashSet<_>>().len(), 3, "{first}");
    assert_eq!(first["usage"]["completion_tokens"], 36);
    assert_eq!(first["usage"]["prompt_tokens"], 18);
    let mut streamed = body;
    streamed["stream"] = json!(true);
    let mut parts = vec![String::new(); 3];
    for event in server.chat(streamed).events() {
        let choice = &event["choices"][0];
        let index = usize::try_from(choice["index"].as_u64().unwrap()).unwrap();
        parts[index].push_str(choice["delta"]["content"].as_str().unwrap_or_default());
    }
    assert_eq!(parts, texts(&first));
}

#[test]
fn completions_of_every_form() {
    let server = ready(options(), NOW);
    let one = server.completion(json!({"prompt": "abc", "ignore_eos": true})).json();
    assert_eq!(one["object"], "text_completion");
    // The start token and three letters.
    assert_eq!(one["usage"]["prompt_tokens"], 4);
    let text = one["choices"][0]["text"].as_str().unwrap().to_owned();
    let tokens = server.completion(json!({"prompt": [26, 1, 2, 3], "ignore_eos": true})).json();
    assert_eq!(tokens["choices"][0]["text"], *text);
    let bare =
        server.completion(json!({"prompt": "abc", "add_special_tokens": false, "ignore_eos": true})).json();
    assert_eq!(bare["usage"]["prompt_tokens"], 3);
    let echoed = server.completion(json!({"prompt": "abc", "echo": true, "ignore_eos": true})).json();
    assert_eq!(echoed["choices"][0]["text"], format!("abc{text}"));
    let events = server
        .completion(json!({"prompt": "abc", "echo": true, "ignore_eos": true, "stream": true}))
        .events();
    let streamed: String = events.iter().map(|e| e["choices"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(streamed, format!("abc{text}"));
    let many = server.completion(json!({"prompt": ["x", [26, 1, 2, 3]], "n": 2, "ignore_eos": true})).json();
    let choices = many["choices"].as_array().unwrap();
    assert_eq!(choices.iter().map(|c| c["index"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(choices[2]["text"], *text);
    assert_eq!(many["usage"]["prompt_tokens"], 2 + 4);
}

#[test]
fn tools_developer_and_arguments_reach_the_template() {
    let server = ready(options(), NOW);
    let prompt = |extra: Value| server.chat(extra).json()["usage"]["prompt_tokens"].as_u64().unwrap();
    let plain = prompt(json!({}));
    let tools = json!([{"type": "function", "function": {"name": "weather", "parameters": {}}}]);
    assert_eq!(prompt(json!({"tools": tools, "tool_choice": "auto"})), plain + 12);
    assert_eq!(prompt(json!({"tools": [], "tool_choice": "none"})), plain);
    assert_eq!(prompt(json!({"chat_template_kwargs": {"word": "four"}})), plain + 4);
    assert_eq!(prompt(json!({"add_generation_prompt": false})), plain - 9);
    let said = |role: &str| prompt(json!({"messages": [{"role": role, "content": "be brief"}]}));
    assert_eq!(said("developer"), said("system"));
}

#[test]
fn eight_at_once_are_each_as_alone() {
    let server = ready(options(), Duration::from_micros(300));
    let body = |i: usize| json!({"prompt": "abcdefgh"[..=i], "seed": i, "temperature": 1, "max_tokens": 60, "stream": i.is_multiple_of(2)});
    let text = |answer: frame::Answer, i: usize| -> String {
        if i.is_multiple_of(2) {
            answer.events().iter().map(|e| e["choices"][0]["text"].as_str().unwrap()).collect()
        } else {
            answer.json()["choices"][0]["text"].as_str().unwrap().to_owned()
        }
    };
    let alone: Vec<String> = (0..8).map(|i| text(server.completion(body(i)), i)).collect();
    let together: Vec<String> = std::thread::scope(|scope| {
        let (server, text) = (&server, &text);
        let all: Vec<_> = (0..8).map(|i| scope.spawn(move || text(server.completion(body(i)), i))).collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(alone, together);
}

#[test]
fn models() {
    let server = ready(options(), NOW);
    let list = server.get("/v1/models").json();
    assert_eq!(list["object"], "list");
    assert_eq!(list["data"][0]["id"], "tiny");
    assert_eq!(list["data"][1]["id"], "org/alias");
    assert_eq!(list["data"][0]["max_model_len"], frame::CONTEXT);
    assert_eq!(server.get("/v1/models/tiny").json()["id"], "tiny");
    assert_eq!(server.get("/v1/models/org/alias").json()["id"], "org/alias");
    assert_eq!(server.get("/v1/models/org%2Falias").json()["id"], "org/alias");
    assert_eq!(server.get("/v1/models/none").json()["error"]["code"], "model_not_found");
    assert_eq!(server.chat(json!({"model": "org/alias"})).status, 200);
    assert_eq!(server.chat(json!({"model": null})).status, 200);
}

#[test]
fn metrics_count() {
    let server = ready(options(), NOW);
    server.chat(json!({"ignore_eos": true}));
    server.chat(json!({"ignore_eos": true, "n": 2, "stream": true}));
    server.chat(json!({"n": 99}));
    let answer = server.get("/metrics");
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let labels = "model_name=\"tiny\",engine=\"0\"";
    for line in [
        format!("vllm:generation_tokens_total{{{labels}}} 36"),
        format!("vllm:prompt_tokens_total{{{labels}}} 54"),
        format!("vllm:time_to_first_token_seconds_count{{{labels}}} 3"),
        format!("vllm:inter_token_latency_seconds_count{{{labels}}} 33"),
        format!("vllm:e2e_request_latency_seconds_count{{{labels}}} 3"),
        format!("vllm:request_params_n_sum{{{labels}}} 3.0"),
        format!("vllm:num_requests_running{{{labels}}} 0"),
        "http_requests_total{handler=\"/v1/chat/completions\",status=\"2xx\",method=\"POST\"} 2".into(),
        "http_requests_total{handler=\"/v1/chat/completions\",status=\"4xx\",method=\"POST\"} 1".into(),
        "gristmill_ready 1".into(),
    ] {
        assert!(answer.body.lines().any(|l| l == line), "no {line} in\n{}", answer.body);
    }
    let open =
        server.send("GET", "/metrics", &[("accept", "application/openmetrics-text;version=1.0.0")], b"");
    assert!(open.body.ends_with("# EOF\n"));
}
