//! The parsers of requests' bodies, against bodies that are made systematically: each field of a whole request, set to each
//! kind of wrong value, left out, null, or there twice.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};
use wire::chunk::ChunkRequest;
use wire::cohere::CohereEmbedRequest;
use wire::embeddings::EmbeddingsRequest;
use wire::entities::EntitiesRequest;
use wire::huggingface::{TextClassificationRequest, TokenClassificationRequest};
use wire::llamacpp::LlamaRequest;
use wire::ollama::{OllamaEmbedRequest, OllamaRequest, ShowRequest};
use wire::rerank::RerankBody;
use wire::tei::{EmbedRequest, PredictRequest, SimilarityRequest};
use wire::tgi::Generate;
use wire::tokens::{self, Tokenize};
use wire::vllm_pooling::{ClassifyRequest, PoolingRequest, ScoreRequest};
use wire::{ChatRequest, CompletionRequest, Fault, ResponsesRequest, anthropic, bodies};

/// What a parser makes of a body, as text that says everything.
type Parse = fn(&[u8]) -> Result<String, Fault>;

fn said<T: std::fmt::Debug>(parsed: T) -> String {
    format!("{parsed:?}")
}

/// The parsers, each with a request that has as many of its fields as go together.
fn parsers() -> Vec<(&'static str, Parse, Value)> {
    let tool = json!({"type": "function", "function": {
        "name": "look", "description": "Looks.", "strict": true,
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    }});
    let called = json!({"role": "assistant", "content": "so", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"at\": \"x\"}"}},
    ]});
    let sampling = json!({
        "temperature": 0.5, "top_p": 0.9, "min_p": 0.1, "typical_p": 0.9, "top_k": 5, "seed": 7, "stop": ["a", "b"],
        "stop_token_ids": [1, 2], "frequency_penalty": 0.5, "presence_penalty": -0.5, "repetition_penalty": 1.5,
        "repeat_last_n": 8, "dry_multiplier": 0.5, "dry_base": 2.0, "dry_allowed_length": 3, "dry_penalty_last_n": 9,
        "dry_sequence_breakers": ["x"], "xtc_probability": 0.5, "xtc_threshold": 0.2, "top_n_sigma": 1.5,
        "dynatemp_range": 0.5, "dynatemp_exponent": 1.5, "mirostat": 1, "mirostat_tau": 4.0, "mirostat_eta": 0.2,
        "allowed_token_ids": [1, 2, 3], "bad_words": ["no"], "logit_bias": {"5": -1.5}, "ignore_eos": true, "min_tokens": 2,
        "include_stop_str_in_output": true, "max_tokens": 9, "model": "m", "n": 2, "priority": "batch", "timeout": 5.0,
        "cache_salt": "s", "include_cost": true, "truncate_prompt_tokens": 50, "return_token_ids": true,
        "return_tokens_as_token_ids": true, "prompt_logprobs": 1, "samplers": ["top_k"], "user": "u",
    });
    let with = |more: Value| {
        let mut body = sampling.clone();
        more.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
        body
    };
    let chat = with(json!({
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "hello"}]},
            called,
            {"role": "tool", "tool_call_id": "c1", "content": "found"},
        ],
        "tools": [tool], "tool_choice": "auto", "parallel_tool_calls": false, "logprobs": true, "top_logprobs": 2,
        "include_reasoning": false, "thinking_token_budget": 5, "chat_template_kwargs": {"a": 1},
        "reasoning_effort": "low", "add_generation_prompt": true,
    }));
    let completion = with(
        json!({"prompt": ["a", "b"], "logprobs": 2, "echo": true, "best_of": 2, "add_special_tokens": false}),
    );
    let response = json!({
        "model": "m", "instructions": "Be brief.", "max_output_tokens": 9, "temperature": 0.5, "top_p": 0.9, "store": false,
        "stream": true, "metadata": {"a": "b"}, "reasoning": {"effort": "low"}, "parallel_tool_calls": false,
        "text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}, "strict": true}},
        "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": true}],
        "tool_choice": "auto", "truncation": "disabled", "previous_response_id": "resp_1",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "found"},
        ],
    });
    let message = json!({
        "model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "Be brief."}], "temperature": 0.5, "top_p": 0.9,
        "top_k": 5, "stop_sequences": ["a"], "stream": true, "metadata": {"user_id": "u"},
        "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hello"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "x"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "found"}]},
        ],
    });
    let generate = json!({"inputs": "a", "stream": false, "parameters": {
        "best_of": 1, "decoder_input_details": false, "details": true, "do_sample": true, "frequency_penalty": 0.5,
        "max_new_tokens": 9, "repetition_penalty": 1.5, "return_full_text": false, "seed": 7, "stop": ["a"],
        "temperature": 0.5, "top_k": 5, "top_n_tokens": 2, "top_p": 0.9, "truncate": 50, "typical_p": 0.9,
    }});
    let llama = json!({
        "prompt": "a", "n_predict": 9, "temperature": 0.5, "top_k": 5, "top_p": 0.9, "min_p": 0.1, "seed": 7, "stop": ["a"],
        "stream": false, "repeat_penalty": 1.5, "repeat_last_n": 8, "n_probs": 2, "ignore_eos": true, "cache_prompt": true,
        "logit_bias": [[5, -1.5]], "return_tokens": true,
    });
    let infill = json!({
        "input_prefix": "a", "input_suffix": "b", "prompt": "c", "n_predict": 9, "temperature": 0.5, "stream": false,
        "input_extra": [{"filename": "f", "text": "t"}],
    });
    let options = json!({
        "temperature": 0.5, "top_p": 0.9, "min_p": 0.1, "typical_p": 0.9, "top_k": 5, "seed": 7, "stop": ["a", "b"],
        "repeat_penalty": 1.1, "repeat_last_n": 8, "mirostat": 2, "num_predict": 9, "num_ctx": 2048, "num_gpu": 1,
    });
    let ollama = json!({
        "model": "m:latest", "stream": false, "keep_alive": "5m", "think": "high", "logprobs": true, "top_logprobs": 2,
        "format": {"type": "object", "properties": {"a": {"const": 7}}}, "options": options, "truncate": true,
        "messages": [
            {"role": "System", "content": "Be brief."},
            {"role": "user", "content": "hello", "images": []},
            {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [
                {"function": {"index": 0, "name": "look", "arguments": {"at": "x"}}}]},
            {"role": "tool", "tool_name": "look", "tool_call_id": "c1", "content": "found"},
        ],
        "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
    });
    let prompt = json!({"model": "m", "prompt": "a", "system": "s", "raw": false, "format": "json", "keep_alive": 60,
        "options": {"num_predict": -1}, "context": [], "suffix": "", "template": "", "images": []});
    let mut all: Vec<(&'static str, Parse, Value)> = vec![
        ("/v1/messages", |body| anthropic::read(&wire::json::read(body)?, false).map(said), message.clone()),
        ("/api/chat", |body| OllamaRequest::parse_chat(body).map(said), ollama),
        ("/api/generate", |body| OllamaRequest::parse_generate(body).map(said), prompt),
        ("/api/show", |body| ShowRequest::parse(body).map(said), json!({"model": "m", "verbose": true})),
        (
            "/v1/messages/count_tokens",
            |body| anthropic::read(&wire::json::read(body)?, true).map(said),
            message,
        ),
        ("/generate", |body| Generate::parse(body).map(said), generate),
        ("/completion", |body| LlamaRequest::parse(body).map(said), llama),
        ("/infill", |body| LlamaRequest::parse_infill(body).map(said), infill),
        ("/v1/chat/completions", |body| ChatRequest::parse(body).map(said), chat),
        ("/v1/completions", |body| CompletionRequest::parse(body).map(said), completion),
        ("/v1/responses", |body| ResponsesRequest::parse(body).map(said), response),
        (
            "/tokenize",
            |body| Tokenize::parse(body).map(said),
            json!({
                "model": "m", "prompt": "a", "add_special_tokens": true, "return_token_strs": true,
            }),
        ),
        ("/detokenize", |body| tokens::detokenize(body).map(said), json!({"model": "m", "tokens": [1, 2]})),
    ];
    all.extend(encoders());
    all
}

/// The parsers of encoders' bodies.
fn encoders() -> Vec<(&'static str, Parse, Value)> {
    let cohere = json!({"model": "m", "texts": ["a", "b"], "input_type": "clustering", "embedding_types": ["int8", "float"],
        "output_dimension": 8, "truncate": "START", "max_tokens": 9, "timeout": 5.0, "priority": 0});
    let rerank = json!({"model": "m", "query": "q", "documents": ["a", {"text": "b"}], "top_n": 1, "raw_scores": true,
        "return_documents": true, "max_tokens_per_doc": 9, "truncate_prompt_tokens": 20, "truncation_side": "left"});
    let texts = json!({"query": "q", "texts": ["a", "b"], "raw_scores": true, "return_text": true, "truncate": true,
        "truncation_direction": "Left", "model": "m"});
    vec![
        (
            "/v1/embeddings",
            |body| EmbeddingsRequest::parse(body).map(said),
            json!({"model": "m", "input": ["a", [1, 2]], "encoding_format": "base64", "dimensions": 8, "user": "u",
                "normalize": true, "truncate_prompt_tokens": 9, "truncation_side": "left", "prompt_name": "query",
                "timeout": 5.0}),
        ),
        ("/v1/embed", |body| CohereEmbedRequest::parse_v1(body).map(said), cohere.clone()),
        ("/v2/embed", |body| CohereEmbedRequest::parse_v2(body).map(said), cohere),
        ("/v2/rerank", |body| RerankBody::parse(body, false).map(said), rerank),
        ("/rerank", |body| RerankBody::parse(body, true).map(said), texts),
        (
            "/score",
            |body| ScoreRequest::parse(body).map(said),
            json!({"queries": "a", "documents": ["b", "c"], "use_activation": false, "truncate": "END", "prompt_name": "x"}),
        ),
        (
            "/classify",
            |body| ClassifyRequest::parse(body).map(said),
            json!({"model": "m", "input": ["a", [1]], "use_activation": true, "truncate_prompt_tokens": -1}),
        ),
        (
            "/pooling",
            |body| PoolingRequest::parse(body).map(said),
            json!({"input": "a", "task": "embed", "encoding_format": "float", "dimensions": 8, "normalize": false}),
        ),
        (
            "/embed",
            |body| EmbedRequest::parse(body).map(said),
            json!({"inputs": ["a"], "truncate": true, "truncation_direction": "right", "prompt_name": "query",
                "normalize": true, "dimensions": 8}),
        ),
        (
            "/predict",
            |body| PredictRequest::parse(body).map(said),
            json!({"inputs": [["a"], ["a", "b"]], "truncate": false, "raw_scores": true}),
        ),
        (
            "/similarity",
            |body| SimilarityRequest::parse(body).map(said),
            json!({"inputs": {"source_sentence": "a", "sentences": ["b"]}, "parameters": {"truncate": true}}),
        ),
        (
            "/pipeline/text-classification",
            |body| TextClassificationRequest::parse(body).map(said),
            json!({"inputs": ["a", {"text": "b", "text_pair": "c"}], "parameters": {"top_k": 2, "function_to_apply": "none"}}),
        ),
        (
            "/pipeline/token-classification",
            |body| TokenClassificationRequest::parse(body).map(said),
            json!({"inputs": ["a"], "parameters": {"aggregation_strategy": "first", "ignore_labels": ["O"]}}),
        ),
        (
            "/api/embed",
            |body| OllamaEmbedRequest::parse_embed(body).map(said),
            json!({"model": "m", "input": ["a"], "truncate": true, "dimensions": 8, "keep_alive": "5m", "options": {"num_ctx": 8}}),
        ),
        (
            "/api/embeddings",
            |body| OllamaEmbedRequest::parse_embeddings(body).map(said),
            json!({"model": "m", "prompt": "a", "keep_alive": 60}),
        ),
        (
            "/v1/entities",
            |body| EntitiesRequest::parse(body).map(said),
            json!({"input": ["a"], "aggregation": "max", "ignore_labels": ["O"], "truncate": true}),
        ),
        (
            "/v1/chunk",
            |body| ChunkRequest::parse(body).map(said),
            json!({"model": "m", "input": "a", "by": "tokens", "size": 64, "overlap": 16}),
        ),
    ]
}

/// What holds for every refusal, whatever it refuses.
fn check(name: &str, body: &str, fault: &Fault) {
    let shown: String = body.chars().take(300).collect();
    let at = format!("{name}: {shown}: {fault}");
    assert!((400..500).contains(&fault.status), "{at}");
    assert!(fault.message.len() < 2_048, "{} bytes: {at}", fault.message.len());
    assert!(fault.param.as_ref().is_none_or(|param| param.len() < 1_024), "{at}");
    for word in ["Some(", "None", "String(", "Number(", "Object {", "Array [", "Bool(", "Null"] {
        // What the body has itself may be shown.
        assert!(!fault.message.contains(word) || body.contains(word), "Rust's own words: {at}");
    }
    assert!(!fault.message.chars().any(char::is_control), "{at}");
    let _: Value = serde_json::from_str(&fault.json()).unwrap();
}

fn parse(name: &str, parser: Parse, body: &str) -> Result<String, Fault> {
    let began = Instant::now();
    let parsed = parser(body.as_bytes());
    assert!(began.elapsed() < Duration::from_secs(2), "{name} took {:?}", began.elapsed());
    if let Err(fault) = &parsed {
        check(name, body, fault);
    }
    parsed
}

/// Pointers to everything inside a value.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    let below: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(i, value)| (i.to_string(), value)).collect(),
        _ => return,
    };
    for (name, value) in below {
        let at = format!("{at}/{name}");
        out.push(at.clone());
        places(value, &at, out);
    }
}

fn without(body: &Value, place: &str) -> Option<Value> {
    let mut body = body.clone();
    let (parent, name) = place.rsplit_once('/')?;
    body.pointer_mut(parent)?.as_object_mut()?.shift_remove(name)?;
    Some(body)
}

/// Values that no field of their kind has room for, and of every other kind.
fn odd_values() -> Vec<Value> {
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let wide: Value = (0..20_000).map(|n| json!(n)).collect();
    let named: Value = Value::Object((0..2_000).map(|n| (format!("k{n}"), json!({"a": 0}))).collect());
    vec![
        json!(true),
        json!(false),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(-1e300),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(""),
        json!("\u{0}\u{1b}[31m\u{202e}"),
        json!("x".repeat(100_000)),
        json!("é\u{1f600}"),
        json!("Some(None)"),
        json!([]),
        json!({}),
        json!([[]]),
        json!([null]),
        json!([{}]),
        json!({"type": "x"}),
        json!({"": ""}),
        deep,
        wide,
        named,
    ]
}

#[test]
fn every_reader_is_tested_here() {
    let mut tested: Vec<&str> = parsers().iter().map(|(name, ..)| *name).collect();
    let mut all: Vec<&str> = bodies::ALL.iter().map(|(name, _)| *name).collect();
    tested.sort_unstable();
    all.sort_unstable();
    assert_eq!(tested, all, "each reader of `bodies::ALL`, with a whole request");
}

#[test]
fn the_whole_requests_are_taken() {
    for (name, parser, body) in parsers() {
        parse(name, parser, &body.to_string()).unwrap_or_else(|fault| panic!("{name}: {fault}"));
    }
}

#[test]
fn null_means_left_out_and_twice_is_refused() {
    for (name, parser, body) in parsers() {
        let mut all = Vec::new();
        places(&body, "", &mut all);
        for place in all {
            let Some(less) = without(&body, &place) else { continue };
            // What a tool or a template is handed on as it is may hold null.
            if [
                "logit_bias/",
                "parameters/",
                "input/",
                "input_schema/",
                "schema/",
                "chat_template_kwargs/",
                "metadata/",
            ]
            .iter()
            .any(|w| place.contains(w))
            {
                continue;
            }
            let mut null = body.clone();
            *null.pointer_mut(&place).unwrap() = Value::Null;
            let (less, null) =
                (parse(name, parser, &less.to_string()), parse(name, parser, &null.to_string()));
            assert_eq!(null.is_ok(), less.is_ok(), "{name}{place}: null {null:?}, left out {less:?}");
        }
        for field in body.as_object().unwrap().keys() {
            let text = body.to_string();
            let twice = format!("{{{}:{},{}", json!(field), body[field], &text[1..]);
            let fault = parse(name, parser, &twice).expect_err(&twice);
            assert!(fault.message.contains(field.as_str()), "{name}: {fault}");
        }
    }
}

#[test]
fn wrong_values_are_named_or_mean_the_same() {
    let odd = odd_values();
    let mut unnamed = std::collections::BTreeSet::new();
    for (name, parser, body) in parsers() {
        let mut all = Vec::new();
        places(&body, "", &mut all);
        for place in all {
            let top = place.split('/').nth(1).unwrap();
            for value in &odd {
                let mut changed = body.clone();
                *changed.pointer_mut(&place).unwrap() = value.clone();
                let Err(fault) = parse(name, parser, &changed.to_string()) else { continue };
                // Told of that field, or of one that has to agree with it and says so.
                let param = fault.param.clone().unwrap_or_default();
                let names =
                    param.split(['.', '[']).next().unwrap_or_default() == top || fault.message.contains(top);
                if !names {
                    let message: String = fault.message.chars().take(120).collect();
                    unnamed.insert(format!("{name}/{top}: {param}: {message}"));
                }
            }
        }
    }
    let unnamed: Vec<String> = unnamed.into_iter().collect();
    assert!(unnamed.is_empty(), "{}", unnamed.join("\n"));
}

#[test]
fn what_was_read_is_read_again_alike() {
    for (name, parser, body) in parsers() {
        let text = body.to_string();
        let pretty = serde_json::to_string_pretty(&body).unwrap();

        let first = parse(name, parser, &text).unwrap();
        assert_eq!(parse(name, parser, &pretty).unwrap(), first, "{name}");
        assert_eq!(
            parse(name, parser, &format!("\u{feff}  {text}\n")).map_err(|f| f.message),
            Ok(first),
            "{name}"
        );
    }
}

#[test]
fn large_bodies_take_little_time() {
    let many = |unit: &str, count: usize| vec![unit; count].join(",");
    for (name, parser, body) in parsers() {
        let mut all = Vec::new();
        places(&body, "", &mut all);
        for place in all.iter().filter(|place| place.matches('/').count() < 2) {
            for filling in [
                format!("[{}]", many(r#"{"a":0}"#, 20_000)),
                format!("[{}]", many("[0]", 40_000)),
                format!("\"{}\"", "\\u0041".repeat(50_000)),
            ] {
                let mark = "\"the place of it\"";
                let mut changed = body.clone();
                *changed.pointer_mut(place).unwrap() = json!("the place of it");
                let _ = parse(name, parser, &changed.to_string().replacen(mark, &filling, 1));
            }
        }
    }
}

/// A body with some of its places changed.
fn mutated() -> impl Strategy<Value = (usize, String)> {
    let kinds = parsers().len();
    let changes = prop::collection::vec(
        (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>()),
        1..6,
    );
    (0..kinds, changes, any::<prop::sample::Index>(), any::<u8>()).prop_map(|(kind, changes, cut, byte)| {
        let (_, _, mut body) = parsers().swap_remove(kind);
        for (place, value, remove) in changes {
            let mut all = Vec::new();
            places(&body, "", &mut all);
            if all.is_empty() {
                break;
            }
            let place = &all[place.index(all.len())];
            if remove && let Some(less) = without(&body, place) {
                body = less;
            } else {
                let odd = odd_values();
                // The three large ones are for the tests above.
                *body.pointer_mut(place).unwrap() = odd[value.index(odd.len() - 3)].clone();
            }
        }
        let mut text = body.to_string();
        // Now and then broken as JSON.
        if byte < 32 {
            let mut at = cut.index(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            if byte < 16 { text.truncate(at) } else { text.insert(at, char::from(byte * 4)) }
        }
        (kind, text)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Nothing panics, every refusal is one, and each parser takes what it likes of the others' bodies.
    #[test]
    fn nothing_panics_and_every_refusal_is_readable((_, body) in mutated()) {
        for (name, parser, _) in parsers() {
            let _ = parse(name, parser, &body);
        }
    }

    #[test]
    fn bytes_of_any_kind(body in prop::collection::vec(any::<u8>(), 0..200)) {
        for (name, parser, _) in parsers() {
            if let Err(fault) = parser(&body) {
                check(name, &String::from_utf8_lossy(&body), &fault);
            }
        }
    }
}
