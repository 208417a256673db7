//! Log-probabilities of prompts: vLLM's `prompt_logprobs`, and OpenAI's `echo` with `logprobs`.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::frame;

use std::time::Duration;

use engine::fake::FakeModel;
use frame::{CONTEXT, VOCAB, options, ready};
use serde_json::{Value, json};

const NOW: Duration = Duration::ZERO;

/// What the fake model thinks of each token of `tokens` but the first: all tokens' log-probabilities there.
fn by_hand(tokens: &[u32]) -> Vec<Vec<f64>> {
    let at = |end: usize| {
        let mut logits = Vec::new();
        FakeModel::logits_after(tokens[..end].iter().copied(), VOCAB, &mut logits);
        let total: f64 = logits.iter().map(|l| f64::from(*l).exp()).sum();
        logits.iter().map(|l| f64::from(*l) - total.ln()).collect()
    };
    (1..tokens.len()).map(at).collect()
}

fn letters(text: &str) -> Vec<u32> {
    text.bytes().map(|b| u32::from(b - b'a') + 1).collect()
}

fn close(json: &Value, wanted: f64) {
    let found = json.as_f64().unwrap_or_else(|| panic!("{json} is no number"));
    assert!((found - wanted).abs() < 1e-4, "{found}, wanted {wanted}");
}

/// vLLM's list for `tokens`, with so many alternatives.
fn check(list: &Value, tokens: &[u32], count: usize) {
    let list = list.as_array().unwrap();
    assert_eq!((list.len(), &list[0]), (tokens.len(), &Value::Null));
    for ((entry, token), all) in list[1..].iter().zip(&tokens[1..]).zip(by_hand(tokens)) {
        let map = entry.as_object().unwrap();
        let mut order: Vec<usize> = (0..VOCAB).collect();
        order.sort_by(|a, b| all[*b].total_cmp(&all[*a]));
        let own = *token as usize;
        let wanted: Vec<usize> = if order[..count].contains(&own) { vec![] } else { vec![own] };
        let wanted: Vec<usize> = wanted.into_iter().chain(order[..count].iter().copied()).collect();
        assert_eq!(map.len(), wanted.len());
        for id in wanted {
            let entry = &map[&id.to_string()];
            close(&entry["logprob"], all[id]);
            assert_eq!(entry["rank"], json!(1 + order.iter().position(|other| *other == id).unwrap()));
            let text = if id == 0 { String::new() } else { char::from(b'a' + (id as u8 - 1) % 26).into() };
            assert_eq!(entry["decoded_token"], text);
        }
    }
}

#[test]
fn prompt_logprobs_of_completions_and_chats() {
    let server = ready(options(), NOW);
    let hello: Vec<u32> = [vec![26], letters("hello")].concat();
    for (n, count) in [(1, 0), (1, 3), (3, 2)] {
        let answer = server.completion(json!({"prompt_logprobs": count, "n": n, "temperature": 1})).json();
        let choices = answer["choices"].as_array().unwrap();
        assert_eq!(choices.len(), n);
        choices.iter().for_each(|choice| check(&choice["prompt_logprobs"], &hello, count));
        let chat = server.chat(json!({"prompt_logprobs": count, "n": n})).json();
        check(&chat["prompt_logprobs"], &letters("userhelloassistant"), count);
        assert!(chat["choices"][0].get("prompt_logprobs").is_none());
    }
    // The best of several, of several prompts; beside the answer's own.
    let body = json!({"prompt": ["abc", [5, 4, 3, 2, 1]], "n": 1, "best_of": 3, "temperature": 1.5, "seed": 1,
        "prompt_logprobs": 1, "logprobs": 2, "ignore_eos": true});
    let answer = server.completion(body).json();
    check(&answer["choices"][0]["prompt_logprobs"], &[26, 1, 2, 3], 1);
    check(&answer["choices"][1]["prompt_logprobs"], &[5, 4, 3, 2, 1], 1);
    assert_eq!(answer["choices"][1]["logprobs"]["tokens"].as_array().unwrap().len(), 12);
    // Not asked for, not sent.
    assert!(server.completion(json!({})).json()["choices"][0].get("prompt_logprobs").is_none());
    assert!(server.chat(json!({})).json().get("prompt_logprobs").is_none());
}

/// The four lists for `tokens`, of which the first is not in `text`, with the answer at their end.
fn check_lists(choice: &Value, tokens: &[u32], count: usize) {
    let (lists, text) = (&choice["logprobs"], choice["text"].as_str().unwrap());
    let names: Vec<String> =
        tokens.iter().map(|id| char::from(b'a' + (*id as u8 - 1) % 26).to_string()).collect();
    assert_eq!(lists["tokens"], json!(names));
    let offsets: Vec<usize> = std::iter::once(0).chain(0..tokens.len() - 1).collect();
    assert_eq!(lists["text_offset"], json!(offsets));
    assert_eq!(text, names[1..].concat());
    assert_eq!((&lists["token_logprobs"][0], &lists["top_logprobs"][0]), (&Value::Null, &Value::Null));
    for (at, all) in by_hand(tokens).iter().enumerate() {
        close(&lists["token_logprobs"][at + 1], all[tokens[at + 1] as usize]);
        let top = lists["top_logprobs"][at + 1].as_object().unwrap();
        assert_eq!(top.len(), count);
        let best = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        assert!(count == 0 || top.values().any(|l| (l.as_f64().unwrap() - best).abs() < 1e-4));
    }
}

#[test]
fn an_echoed_prompt_is_scored_as_the_answer_is() {
    let server = ready(options(), NOW);
    let start: Vec<u32> = [vec![26], letters("hello")].concat();
    for (max_tokens, count) in [(0, 0), (0, 1), (1, 1), (12, 3)] {
        let body = json!({"echo": true, "logprobs": count, "max_tokens": max_tokens, "ignore_eos": true,
            "temperature": 1, "seed": 5});
        let answer = server.completion(body.clone()).json();
        let choice = &answer["choices"][0];
        let said = letters(&choice["text"].as_str().unwrap()["hello".len()..]);
        assert_eq!((said.len(), &choice["finish_reason"]), (max_tokens, &json!("length")));
        check_lists(choice, &[start.clone(), said].concat(), count);
        assert_eq!(answer["usage"]["completion_tokens"], max_tokens);
        assert!(choice.get("prompt_logprobs").is_none());

        let mut streamed = body;
        streamed["stream"] = json!(true);
        let events = server.completion(streamed).events();
        let first = &events[0]["choices"][0];
        assert_eq!(
            (&first["text"], first["logprobs"]["tokens"].as_array().unwrap().len()),
            (&json!("hello"), 6)
        );
        let mut whole = json!({"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []});
        for lists in events.iter().filter_map(|e| e["choices"][0]["logprobs"].as_object()) {
            for (name, more) in lists {
                whole[name].as_array_mut().unwrap().extend(more.as_array().unwrap().iter().cloned());
            }
        }
        assert_eq!(whole, choice["logprobs"]);
    }
    // Several answers, streamed: each begins with the prompt's.
    let body = json!({"echo": true, "logprobs": 0, "n": 2, "stream": true, "ignore_eos": true});
    let events = server.completion(body).events();
    for index in 0..2 {
        let first = events.iter().find(|e| e["choices"][0]["index"] == index).unwrap();
        assert_eq!(first["choices"][0]["logprobs"]["token_logprobs"].as_array().unwrap().len(), 6);
    }
    // Without log-probabilities there is nothing but the text.
    let answer = server.completion(json!({"echo": true, "max_tokens": 0, "prompt": ["ab", [3, 4]]})).json();
    assert_eq!((&answer["choices"][0]["text"], &answer["choices"][1]["text"]), (&json!("ab"), &json!("cd")));
    assert_eq!(answer["choices"][0]["logprobs"], Value::Null);
}

/// What lm-evaluation-harness sends to score a text: it leaves out the last entry as the answer's, an end token too.
#[test]
fn one_token_is_one_entry_even_where_it_ends_the_answer() {
    let server = ready(options(), NOW);
    let body = |bias: Value| {
        json!({"prompt": [[26, 1, 2, 3], [4, 5, 6]], "temperature": 0, "max_tokens": 1, "logprobs": 1,
            "seed": 1234, "echo": true, "logit_bias": bias})
    };
    for bias in [json!({}), json!({"0": 100})] {
        let answer = server.completion(body(bias)).json();
        for (choice, tokens) in answer["choices"].as_array().unwrap().iter().zip([4, 3]) {
            assert_eq!(choice["logprobs"]["token_logprobs"].as_array().unwrap().len(), tokens + 1);
            assert_eq!(choice["logprobs"]["top_logprobs"].as_array().unwrap().len(), tokens + 1);
        }
    }
}

#[test]
fn what_is_remembered_does_not_change_them() {
    let server = ready(options(), NOW);
    let body = json!({"prompt": "helloworld".repeat(7), "prompt_logprobs": 2});
    let cold = server.completion(body.clone()).json();
    let warm = server.completion(body.clone()).json();
    assert_eq!(cold["choices"], warm["choices"]);
    assert_eq!(warm["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0), 0);
    let mut plain = body;
    plain.as_object_mut().unwrap().remove("prompt_logprobs");
    let plain = server.completion(plain).json();
    assert_eq!(plain["usage"]["prompt_tokens_details"]["cached_tokens"], 64);
}

#[test]
fn names_as_ids_and_prompts_that_are_cut() {
    let server = ready(options(), NOW);
    let body = json!({"echo": true, "logprobs": 1, "max_tokens": 0, "return_tokens_as_token_ids": true});
    let lists = server.completion(body).json()["choices"][0]["logprobs"].clone();
    assert_eq!((&lists["tokens"][0], &lists["tokens"][1]), (&json!("token_id:26"), &json!("token_id:8")));
    let body = json!({"echo": true, "logprobs": 0, "max_tokens": 0, "prompt": "helloworld", "truncate_prompt_tokens": 5});
    let choice = server.completion(body).json()["choices"][0].clone();
    assert_eq!(choice["text"], "world");
    assert_eq!(choice["logprobs"]["text_offset"], json!([0, 1, 2, 3, 4]));
}

#[test]
fn what_has_no_bound_is_refused() {
    let server = ready(options(), NOW);
    for (body, param) in [
        (json!({"prompt_logprobs": 1, "stream": true}), "prompt_logprobs"),
        (json!({"prompt_logprobs": 21}), "prompt_logprobs"),
        (json!({"max_tokens": 0}), "max_tokens"),
    ] {
        let answer = server.completion(body.clone());
        assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!(param)), "{body}");
    }
    let long = vec!["x".repeat(CONTEXT - 14); 64];
    let most = json!({"prompt": long, "prompt_logprobs": 20});
    assert_eq!(server.completion(most).status, 200);
    let long: Vec<u32> = vec![1; 4_000];
    let body = json!({"prompt": [long, long, long, long], "echo": true, "logprobs": 20});
    let answer = server.completion(body);
    assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!("logprobs")));
    let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("16000 tokens") && message.contains("262144"), "{message}");
}
