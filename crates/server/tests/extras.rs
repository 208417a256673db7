//! vLLM's and llama.cpp's fields: which tokens may come, where answers end, what is told of them.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::frame;

use std::time::Duration;

use frame::{Running, merge, options, ready};
use serde_json::{Value, json};

const NOW: Duration = Duration::ZERO;

/// The text and the first choice of a completion.
fn said(server: &Running, extra: Value) -> (String, Value) {
    let mut body = json!({"ignore_eos": true});
    merge(&mut body, extra);
    let answer = server.completion(body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let choice = answer.json()["choices"][0].clone();
    (choice["text"].as_str().unwrap().to_owned(), choice)
}

#[test]
fn nothing_ends_before_min_tokens() {
    let server = ready(options(), NOW);
    let eager = json!({"ignore_eos": false, "logit_bias": {"0": 100}});
    let mut patient = eager.clone();
    patient["min_tokens"] = json!(5);
    assert_eq!(said(&server, eager).0, "");
    let (text, choice) = said(&server, patient);
    assert_eq!(
        (text.len(), &choice["finish_reason"], &choice["stop_reason"]),
        (5, &json!("stop"), &Value::Null)
    );
}

#[test]
fn only_allowed_tokens_and_no_bad_words() {
    let server = ready(options(), NOW);
    let (text, _) = said(&server, json!({"allowed_token_ids": [1, 2, 26]}));
    assert!(text.len() == 12 && text.bytes().all(|b| b"abz".contains(&b)), "{text}");
    let (free, _) = said(&server, json!({}));
    let word = &free[4..6];
    let (held, _) = said(&server, json!({"bad_words": [word]}));
    assert!(!held.contains(word) && held[..5] == free[..5], "{held} after {free} without {word}");
}

#[test]
fn the_stop_that_was_met_is_told() {
    let server = ready(options(), NOW);
    let (free, choice) = said(&server, json!({}));
    assert_eq!(choice["stop_reason"], Value::Null);
    let stop = &free[4..6];
    let at = free.find(stop).unwrap();
    for (kept, text) in [(false, &free[..at]), (true, &free[..at + 2])] {
        let body = json!({"stop": ["nosuch", stop], "include_stop_str_in_output": kept});
        let (got, choice) = said(&server, body.clone());
        assert_eq!((got.as_str(), &choice["stop_reason"]), (text, &json!(stop)));
        for chat in [false, true] {
            let mut body = body.clone();
            merge(&mut body, json!({"stream": true, "ignore_eos": true}));
            // The chat continues another prompt: only the shape is the same.
            let events = if chat { server.chat(body).events() } else { server.completion(body).events() };
            let last = &events.last().unwrap()["choices"][0];
            assert!(last.get("stop_reason").is_some(), "{last}");
            assert!(chat || last["stop_reason"] == stop, "{last}");
            let others = &events[..events.len() - 1];
            assert!(others.iter().all(|e| e["choices"][0].get("stop_reason").is_none()));
        }
    }
    let id = u32::from(free.as_bytes()[3] - b'a') + 1;
    let (_, choice) = said(&server, json!({"stop_token_ids": [id]}));
    assert_eq!((&choice["stop_reason"], &choice["finish_reason"]), (&json!(id), &json!("stop")));
}

#[test]
fn docs_anthropic_is_told_the_stop_sequence() {
    let server = ready(options(), NOW);
    let ask = |extra: Value| {
        let mut body = json!({"model": "tiny", "max_tokens": 30, "temperature": 0, "ignore_eos": true,
            "messages": [{"role": "user", "content": "hello"}]});
        merge(&mut body, extra);
        server.post("/v1/messages", &body)
    };
    let free = ask(json!({})).json();
    assert_eq!((&free["stop_reason"], &free["stop_sequence"]), (&json!("max_tokens"), &Value::Null));
    let text = free["content"][0]["text"].as_str().unwrap();
    let stop = &text[3..6];
    let stopped = ask(json!({"stop_sequences": [stop]})).json();
    assert_eq!((&stopped["stop_reason"], &stopped["stop_sequence"]), (&json!("stop_sequence"), &json!(stop)));
    let stream = ask(json!({"stop_sequences": [stop], "stream": true})).body;
    let delta =
        stream.lines().find(|line| line.contains("message_delta") && line.starts_with("data: ")).unwrap();
    let delta: Value = serde_json::from_str(&delta[6..]).unwrap();
    assert_eq!(delta["delta"], json!({"stop_reason": "stop_sequence", "stop_sequence": stop}));
}

#[test]
fn the_likeliest_of_several_are_sent() {
    let server = ready(options(), NOW);
    let ask = |extra: Value| {
        let mut body =
            json!({"prompt": ["hello", "world"], "temperature": 1.5, "seed": 7, "ignore_eos": true});
        merge(&mut body, extra);
        server.completion(body).json()
    };
    let all = ask(json!({"n": 5, "logprobs": 0}));
    let mean = |choice: &Value| {
        let scores: Vec<f64> = choice["logprobs"]["token_logprobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|l| l.as_f64().unwrap())
            .collect();
        scores.iter().sum::<f64>() / scores.len() as f64
    };
    let best = ask(json!({"n": 2, "best_of": 5}));
    let choices = best["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 4);
    for prompt in 0..2 {
        let mut ranked: Vec<&Value> =
            all["choices"].as_array().unwrap()[prompt * 5..prompt * 5 + 5].iter().collect();
        ranked.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
        for place in 0..2 {
            let choice = &choices[prompt * 2 + place];
            assert_eq!(choice["text"], ranked[place]["text"]);
            assert_eq!((&choice["index"], &choice["logprobs"]), (&json!(prompt * 2 + place), &Value::Null));
        }
    }
    assert_eq!(best["usage"]["completion_tokens"], 2 * 5 * 12);
    let echoed = ask(json!({"best_of": 3, "echo": true}));
    assert!(echoed["choices"][1]["text"].as_str().unwrap().starts_with("world"));
}

#[test]
fn token_ids_come_along() {
    let server = ready(options(), NOW);
    let letters = |text: &str| -> Value { text.bytes().map(|b| u32::from(b - b'a') + 1).collect() };
    let body = json!({"return_token_ids": true, "logprobs": 1, "return_tokens_as_token_ids": true});
    let (text, choice) = said(&server, body.clone());
    assert_eq!(choice["token_ids"], letters(&text));
    let prompt: Value = [json!(26)].into_iter().chain(letters("hello").as_array().unwrap().clone()).collect();
    assert_eq!(choice["prompt_token_ids"], prompt);
    let first = format!("token_id:{}", choice["token_ids"][0]);
    assert_eq!(choice["logprobs"]["tokens"][0], json!(first));
    assert!(choice["logprobs"]["top_logprobs"][0].get(&first).is_some());
    let mut streamed = body;
    merge(&mut streamed, json!({"stream": true, "ignore_eos": true}));
    let events = server.completion(streamed).events();
    let ids: Value =
        events.iter().filter_map(|e| e["choices"][0]["token_ids"].as_array()).flatten().cloned().collect();
    assert_eq!((ids, &events[0]["choices"][0]["prompt_token_ids"]), (letters(&text), &prompt));
    assert!(events[1..].iter().all(|e| e["choices"][0].get("prompt_token_ids").is_none()));

    let chat = server.chat(json!({"return_token_ids": true, "ignore_eos": true})).json();
    assert_eq!(chat["prompt_token_ids"], letters("userhelloassistant"));
    assert_eq!(
        chat["choices"][0]["token_ids"],
        letters(chat["choices"][0]["message"]["content"].as_str().unwrap())
    );
    let events = server.chat(json!({"return_token_ids": true, "ignore_eos": true, "stream": true})).events();
    assert_eq!(events[0]["prompt_token_ids"], chat["prompt_token_ids"]);
    let ids: Value =
        events.iter().filter_map(|e| e["choices"][0]["token_ids"].as_array()).flatten().cloned().collect();
    assert_eq!(ids, chat["choices"][0]["token_ids"]);
    // Not asked for, not sent.
    assert!(server.chat(json!({})).json().get("prompt_token_ids").is_none());
}

#[test]
fn a_long_prompt_is_cut_on_request() {
    let server = ready(options(), NOW);
    let (end, _) = said(&server, json!({"prompt": "world", "add_special_tokens": false}));
    let (cut, choice) =
        said(&server, json!({"prompt": "helloworld", "truncate_prompt_tokens": 5, "return_token_ids": true}));
    assert_eq!((cut, choice["prompt_token_ids"].as_array().unwrap().len()), (end, 5));
    let long = "x".repeat(200);
    let (_, choice) =
        said(&server, json!({"prompt": long, "truncate_prompt_tokens": -1, "return_token_ids": true}));
    assert_eq!(choice["prompt_token_ids"].as_array().unwrap().len(), frame::CONTEXT - 12);
    assert_eq!(choice["token_ids"].as_array().unwrap().len(), 12);
}

#[test]
fn the_last_message_goes_on() {
    let server = ready(options(), NOW);
    let messages = json!([{"role": "user", "content": "hello"}, {"role": "assistant", "content": "i say"}]);
    let extra = json!({"messages": messages, "continue_final_message": true, "ignore_eos": true});
    let chat = server.chat(extra.clone()).json();
    let (same, _) = said(&server, json!({"prompt": "userhelloassistantisay", "add_special_tokens": false}));
    assert_eq!(chat["choices"][0]["message"]["content"], same);
    let mut rendered = extra;
    rendered["model"] = json!("tiny");
    let prompt = server.post("/apply-template", &rendered).json();
    assert_eq!(prompt["prompt"], "userhelloassistanti say");
    // Anthropic's form of the same.
    let body = json!({"model": "tiny", "max_tokens": 12, "temperature": 0, "ignore_eos": true, "messages": messages});
    assert_eq!(server.post("/v1/messages", &body).json()["content"][0]["text"], same);
}

#[test]
fn samplers_act() {
    let server = ready(options(), NOW);
    let (greedy, _) = said(&server, json!({}));
    let hot = |extra: Value| {
        let mut body = json!({"temperature": 2, "seed": 3, "top_k": 0, "top_p": 1, "min_p": 0});
        merge(&mut body, extra);
        said(&server, body).0
    };
    assert_ne!(hot(json!({})), greedy);
    // A hundredth of a deviation leaves the best; so does a cut at no surprise.
    assert_eq!(hot(json!({"top_n_sigma": 0.01})), greedy);
    assert_eq!(hot(json!({"mirostat": 2, "mirostat_tau": 0, "mirostat_eta": 0})), greedy);
    assert_ne!(hot(json!({"mirostat": 1, "mirostat_tau": 9})), greedy);
    assert_ne!(hot(json!({"dynatemp_range": 1.5})), hot(json!({})));
    // What is not in the list does not act.
    assert_eq!(hot(json!({"samplers": ["top_k"], "top_k": 1})), greedy);
    assert_ne!(hot(json!({"samplers": "t", "top_k": 1})), greedy);
}

#[test]
fn what_cannot_be_is_refused() {
    let server = ready(options(), NOW);
    let messages = json!([{"role": "assistant", "content": "so"}]);
    for (extra, param, code) in [
        (json!({"min_tokens": 13}), "min_tokens", "invalid_value"),
        (json!({"allowed_token_ids": []}), "allowed_token_ids", "invalid_value"),
        (json!({"allowed_token_ids": [27]}), "allowed_token_ids", "invalid_value"),
        (json!({"bad_words": [""]}), "bad_words[0]", "invalid_value"),
        (json!({"truncate_prompt_tokens": 0}), "truncate_prompt_tokens", "invalid_value"),
        (json!({"mirostat": 3}), "mirostat", "invalid_value"),
        (json!({"dynatemp_exponent": 0}), "dynatemp_exponent", "invalid_value"),
        (json!({"samplers": ["temperature", "top_k"]}), "samplers", "unsupported_parameter"),
        (json!({"samplers": ["top_k", "magic"]}), "samplers[1]", "unsupported_parameter"),
        (json!({"best_of": 2}), "best_of", "unsupported_parameter"),
        (json!({"continue_final_message": true}), "continue_final_message", "invalid_value"),
        (
            json!({"messages": messages, "continue_final_message": true, "add_generation_prompt": true}),
            "continue_final_message",
            "invalid_value",
        ),
    ] {
        let answer = server.chat(extra.clone());
        let error = answer.json()["error"].clone();
        assert_eq!(
            (answer.status, &error["param"], &error["code"]),
            (400, &json!(param), &json!(code)),
            "{extra} {error}"
        );
    }
    for (extra, param) in [
        (json!({"best_of": 2, "n": 3}), "best_of"),
        (json!({"best_of": 17}), "best_of"),
        (json!({"best_of": 2, "stream": true}), "best_of"),
        (json!({"best_of": 16, "prompt": ["a", "b", "c", "d", "e"]}), "best_of"),
    ] {
        let answer = server.completion(extra.clone());
        assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!(param)), "{extra}");
    }
}
