//! Answers that one server began and another goes on with: whichever event of a stream was the last that arrived, its
//! text and the rest are the text of an undisturbed answer.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::fake::FakeModel;
use engine::{Engine, Limits};
use serde_json::{Value, json};
use server::{LoadedModel, ModelText};
use text::Tokenizer;

use crate::frame::script::saying;
use crate::frame::{Running, VOCAB, merge, options, ready_with, unready};

const CHAT: &str = "/v1/chat/completions";
const COMPLETION: &str = "/v1/completions";

/// What the events of a choice add up to.
#[derive(Debug, Clone, Default, PartialEq)]
struct Sum {
    roles: usize,
    content: String,
    thought: String,
    /// Name and arguments.
    calls: Vec<(String, String)>,
    ids: Vec<u32>,
    /// Log-probabilities of tokens, and where their texts begin.
    logprobs: Vec<Value>,
    offsets: Vec<Value>,
    finish_reason: Value,
    stop_reason: Value,
    usage: Value,
}

impl Sum {
    fn add(&mut self, event: &Value) {
        if !event["usage"].is_null() {
            self.usage = event["usage"].clone();
        }
        let Some(choice) = event["choices"].get(0) else { return };
        let delta = &choice["delta"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.roles += usize::from(delta["role"].is_string());
        self.content += &(text(&delta["content"]) + &text(&choice["text"]));
        self.thought += &text(&delta["reasoning_content"]);
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
            if index == self.calls.len() {
                assert!(call["id"].is_string(), "{event}");
                self.calls.push((text(&call["function"]["name"]), String::new()));
            } else {
                assert!(call.get("id").is_none(), "{event}");
            }
            self.calls[index].1 += &text(&call["function"]["arguments"]);
        }
        let ids = choice["token_ids"].as_array().into_iter().flatten();
        self.ids.extend(ids.map(|id| u32::try_from(id.as_u64().unwrap()).unwrap()));
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let logprobs = &choice["logprobs"];
        self.logprobs.extend(list(&logprobs["content"]).into_iter().map(|one| one["logprob"].clone()));
        self.logprobs.extend(list(&logprobs["token_logprobs"]));
        self.offsets.extend(list(&logprobs["text_offset"]));
        if !choice["finish_reason"].is_null() {
            self.finish_reason = choice["finish_reason"].clone();
            self.stop_reason = choice["stop_reason"].clone();
        }
    }
}

/// Cuts the stream of a request after each of its events, and has the other server go on; returns the whole answer.
fn check(first: &Running, second: &Running, path: &str, body: &Value) -> Sum {
    check_some(first, second, path, body, 1)
}

/// As [`check`], after every so many events.
fn check_some(first: &Running, second: &Running, path: &str, body: &Value, step: usize) -> Sum {
    let mut body = body.clone();
    let more = json!({"stream": true, "return_token_ids": true, "stream_options": {"include_usage": true}});
    merge(&mut body, more);
    let events = first.post(path, &body).events();
    let mut whole = Sum::default();
    events.iter().for_each(|event| whole.add(event));
    assert!(whole.finish_reason.is_string() && whole.usage.is_object(), "{events:?}");
    assert_eq!(whole.usage["completion_tokens"], whole.ids.len(), "every token is told: {whole:?}");
    let ended = events.iter().position(|event| !event["choices"][0]["finish_reason"].is_null()).unwrap();
    for count in (0..=ended).step_by(step) {
        let mut sum = Sum::default();
        events[..count].iter().for_each(|event| sum.add(event));
        let resumed_tokens = sum.ids.len();
        let mut again = body.clone();
        merge(&mut again, json!({"resume": {"token_ids": sum.ids}}));
        let rest = second.post(path, &again);
        assert_eq!(rest.status, 200, "after {count} of {body}: {rest:?}");
        rest.events().iter().for_each(|event| sum.add(event));
        let mut usage = whole.usage.clone();
        usage["completion_tokens_details"] = json!({"resumed_tokens": resumed_tokens});
        // How much of the prompt was cached, and what that saved, is each server's own.
        usage["prompt_tokens_details"] = sum.usage["prompt_tokens_details"].clone();
        // A stream that is gone on with does not begin again.
        let roles = usize::from(path == CHAT && count > 0);
        let expected = Sum { usage, roles, ..whole.clone() };
        assert_eq!(sum, expected, "after {count} of {} events of {body}", events.len());
    }
    whole
}

/// The whole answer, of which another server generated the first tokens.
fn check_whole(server: &Running, path: &str, body: &Value, ids: &[u32]) {
    let mut undisturbed = server.post(path, body).json();
    for count in [0, 1, ids.len() / 2, ids.len()] {
        let mut again = body.clone();
        merge(&mut again, json!({"resume": {"token_ids": ids[..count]}, "return_token_ids": true}));
        let mut answer = server.post(path, &again).json();
        assert_eq!(answer["usage"]["completion_tokens_details"]["resumed_tokens"], count, "{answer}");
        assert_eq!(answer["choices"][0]["token_ids"], json!(ids), "{answer}");
        for answer in [&mut undisturbed, &mut answer] {
            for field in ["id", "created", "usage", "prompt_token_ids"] {
                answer.as_object_mut().unwrap().remove(field);
            }
            let choice = answer["choices"][0].as_object_mut().unwrap();
            choice.remove("token_ids");
            choice.remove("prompt_token_ids");
            let calls = answer.pointer_mut("/choices/0/message/tool_calls").and_then(Value::as_array_mut);
            calls.into_iter().flatten().for_each(|call| call["id"] = Value::Null);
        }
        assert_eq!(answer, undisturbed, "{count} of {body}");
    }
}

const SCRIPT: &str = "<think>Two cities < three.</think>\n\nI look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";

#[test]
fn thoughts_and_calls_go_on_after_every_event() {
    let (first, second) = (saying(SCRIPT), saying(SCRIPT));
    let tool = json!({"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}});
    let body = json!({
        "model": "tiny", "messages": [{"role": "user", "content": "x"}], "max_tokens": 400, "seed": 1,
        "tools": [tool]
    });
    let with = |more: Value| {
        let mut body = body.clone();
        merge(&mut body, more);
        body
    };
    let whole = check(&first, &second, CHAT, &body);
    assert_eq!((whole.calls.len(), whole.content.as_str()), (2, "I look."));
    assert_eq!((&whole.finish_reason, whole.thought.as_str()), (&json!("tool_calls"), "Two cities < three."));
    check_whole(&second, CHAT, &body, &whole.ids);
    for more in [
        json!({"include_reasoning": false, "parallel_tool_calls": false}),
        json!({"tool_choice": "none", "stop": ["look.\n<tool_calls>", "Oslo"]}),
        json!({"max_tokens": 100}),
        json!({"logprobs": true, "top_logprobs": 2}),
    ] {
        check_some(&first, &second, CHAT, &with(more), 3);
    }
}

#[test]
fn a_fenced_call_is_one_after_every_event() {
    let script = "```json\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n```";
    let (first, second) = (saying(script), saying(script));
    let tool = json!({"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}});
    let body = json!({
        "model": "tiny", "messages": [{"role": "user", "content": "x"}], "max_tokens": 400, "temperature": 0,
        "tools": [tool]
    });
    let whole = check(&first, &second, CHAT, &body);
    assert_eq!((whole.calls.len(), whole.content.as_str()), (1, ""));
    check_whole(&second, CHAT, &body, &whole.ids);
}

fn letters(prefix_cache: bool) -> Running {
    let mut model = FakeModel::new(VOCAB, 96, 64, 8);
    model.prefill_numerics_differ = true;
    ready_with(options(), model, Limits { prefix_cache, ..Limits::default() })
}

#[test]
fn sampling_goes_on_after_every_event() {
    let (first, warm, cold) = (letters(true), letters(true), letters(false));
    let sampled = json!({
        "model": "tiny", "seed": 7, "temperature": 1.1, "max_tokens": 30, "frequency_penalty": 0.5,
        "presence_penalty": 0.2, "xtc_probability": 0.5, "dry_multiplier": 0.8, "logit_bias": {"3": 1.5}
    });
    for more in [
        json!({}),
        json!({"temperature": 0}),
        json!({"ignore_eos": true, "logprobs": true}),
        json!({"ignore_eos": true, "min_tokens": 5, "stop": ["a", "bx", "kk"]}),
        json!({"ignore_eos": true, "stop_token_ids": [4, 9], "include_stop_str_in_output": true}),
    ] {
        let mut body = sampled.clone();
        merge(&mut body, more);
        let (mut chat, mut completion) = (body.clone(), body);
        merge(&mut chat, json!({"messages": [{"role": "user", "content": "hello"}]}));
        merge(&mut completion, json!({"prompt": "hello there"}));
        for second in [&warm, &cold] {
            check(&first, second, CHAT, &chat);
            check(&first, second, COMPLETION, &completion);
        }
        if completion.get("logprobs").is_none() {
            let whole = check(&first, &warm, COMPLETION, &completion);
            check_whole(&cold, COMPLETION, &completion, &whole.ids);
        }
    }
}

/// A server over random logits and a real tokenizer, whose tokens are parts of characters.
fn bytes() -> Running {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../text/tests/fixtures/tiny/byte-level.json");
    let tokenizer = Arc::new(Tokenizer::open_path(&path).unwrap());
    let mut running = unready(options(), Duration::from_secs(5));
    let watch = running.server.watch("tiny");
    let model = FakeModel::new(tokenizer.vocab_size(), 512, 64, 16);
    let engine = Engine::start_with(model, tokenizer.clone(), Limits::default(), watch).unwrap();
    let text = Arc::new(ModelText::new(tokenizer, None));
    let model = LoadedModel::new(vec!["tiny".into()], engine.clone(), text);
    running.server.ready(model, Instant::now());
    running.engine = Some(engine);
    running
}

#[test]
fn forms_and_parts_of_characters_go_on_after_every_event() {
    let (first, second) = (bytes(), bytes());
    let body = json!({
        "model": "tiny", "prompt": "hello", "seed": 3, "temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0,
        "max_tokens": 60
    });
    let tags = json!({"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 3});
    let schema = json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}, "tags": tags},
        "required": ["name", "tags"], "additionalProperties": false});
    for more in [
        json!({}),
        json!({"seed": 4, "stop": ["e", "é"]}),
        json!({"guided_json": schema, "max_tokens": 200}),
        json!({"guided_choice": ["née", "neither", "no"]}),
        json!({"guided_regex": "[a-c]{3,9}é", "temperature": 0}),
    ] {
        let mut body = body.clone();
        merge(&mut body, more);
        check(&first, &second, COMPLETION, &body);
    }
    let mut forbidden = body.clone();
    merge(&mut forbidden, json!({"guided_choice": ["yes", "no"], "resume": {"token_ids": [70]}}));
    let refused = second.post(COMPLETION, &forbidden);
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("resume")), "{refused:?}");
}

#[test]
fn what_cannot_be_resumed_is_refused_by_name() {
    let server = letters(true);
    let chat = |more: Value| {
        let mut body = json!({"messages": [{"role": "user", "content": "hello"}], "seed": 1, "temperature": 1,
            "resume": {"token_ids": [1, 2, 3]}});
        merge(&mut body, more);
        server.post(CHAT, &body)
    };
    let completion = |more: Value| {
        let mut body =
            json!({"prompt": "hello", "seed": 1, "temperature": 1, "resume": {"token_ids": [1, 2, 3]}});
        merge(&mut body, more);
        server.post(COMPLETION, &body)
    };
    for (answer, param) in [
        (chat(json!({"resume": [1]})), "resume"),
        (chat(json!({"resume": {}})), "resume.token_ids"),
        (chat(json!({"resume": {"token_ids": [-1]}})), "resume.token_ids[0]"),
        (chat(json!({"resume": {"token_ids": "a"}})), "resume.token_ids"),
        (chat(json!({"resume": {"token_ids": [VOCAB]}})), "resume"),
        (chat(json!({"n": 2})), "resume"),
        (chat(json!({"max_tokens": 2})), "resume.token_ids"),
        (chat(json!({"seed": null})), "resume"),
        (chat(json!({"logprobs": true})), "resume"),
        (chat(json!({"prompt_logprobs": 0})), "resume"),
        (chat(json!({"mirostat": 2})), "resume"),
        (chat(json!({"resume": {"token_ids": [1, 0, 3]}})), "resume"),
        (chat(json!({"resume": {"token_ids": vec![1; 96]}})), "resume.token_ids"),
        (completion(json!({"best_of": 2})), "resume"),
        (completion(json!({"prompt": ["a", "b"]})), "resume"),
        (completion(json!({"echo": true})), "resume"),
    ] {
        assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!(param)), "{answer:?}");
    }
    let message = json!({"model": "tiny", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}],
        "resume": {"token_ids": [1]}});
    assert_eq!(server.post("/v1/messages", &message).status, 400);
    assert_eq!((server.stats().running, server.stats().waiting, server.stats().waiting_tokens), (0, 0, 0));
}
