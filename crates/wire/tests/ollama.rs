//! Requests of Ollama's API: what they ask for, in the words of the other dialects.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::time::Duration;

use serde_json::{Value, json};
use wire::completion::Prompt;
use wire::guided::Form;
use wire::ollama::{Ask, KeepAlive, OllamaRequest, ShowRequest};
use wire::{ChatRequest, CompletionRequest, Fault};

fn chat(body: &Value) -> Result<OllamaRequest, Fault> {
    OllamaRequest::parse_chat(body.to_string().as_bytes())
}

fn generate(body: &Value) -> Result<OllamaRequest, Fault> {
    OllamaRequest::parse_generate(body.to_string().as_bytes())
}

fn as_chat(request: OllamaRequest) -> ChatRequest {
    let Ask::Chat(chat) = request.ask else { panic!("{:?}", request.ask) };
    *chat
}

fn as_text(request: OllamaRequest) -> CompletionRequest {
    let Ask::Text(text) = request.ask else { panic!("{:?}", request.ask) };
    *text
}

fn turns() -> Value {
    json!([{"role": "user", "content": "hi"}])
}

/// The same conversation to `/api/chat` with these fields.
fn with(extra: Value) -> Result<OllamaRequest, Fault> {
    let mut body = json!({"model": "m", "messages": turns()});
    extra.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
    chat(&body)
}

#[test]
fn a_conversation_with_tools_says_the_same() {
    let tool = json!({"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}});
    let request = chat(&json!({
        "model": "m:latest", "tools": [tool], "stream": false, "keep_alive": "5m", "think": true, "format": "json",
        "options": {"temperature": 0, "top_k": 5, "num_predict": 9, "num_ctx": 8192, "stop": ["END"], "seed": 3,
            "repeat_penalty": 1.1, "num_gpu": 99, "num_thread": 8},
        "messages": [
            {"role": "SYSTEM", "content": "Be brief."},
            {"role": "user", "content": "Where?"},
            {"role": "assistant", "thinking": "hm", "tool_calls": [
                {"function": {"index": 0, "name": "look", "arguments": {"at": 1}}}]},
            {"role": "tool", "tool_name": "look", "content": "there"},
        ],
    }))
    .unwrap();
    assert_eq!(request.model.as_deref(), Some("m:latest"));
    assert_eq!(request.keep_alive, Some(KeepAlive::For(Duration::from_secs(300))));
    assert_eq!((request.num_ctx, request.thinks, request.streamed), (Some(8192), true, false));
    let chat = as_chat(request);
    assert_eq!(
        Value::from(chat.messages),
        json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Where?"},
            {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [
                {"type": "function", "function": {"name": "look", "arguments": {"at": 1}}}]},
            {"role": "tool", "content": "there", "name": "look"},
        ])
    );
    assert_eq!((chat.tools.unwrap().len(), chat.max_tokens, chat.stream.on), (1, Some(9), false));
    assert_eq!(chat.template_arguments["enable_thinking"], true);
    assert_eq!(chat.guided.unwrap().form, Form::Object);
    let s = chat.sampling;
    assert_eq!((s.temperature, s.top_k, s.seed), (Some(0.0), Some(5), Some(3)));
    assert_eq!((s.repetition_penalty, s.stop), (Some(1.1), vec!["END".to_owned()]));
    assert_eq!(chat.warnings, Vec::<String>::new());
}

#[test]
fn what_is_not_said_has_its_default() {
    let request = chat(&json!({"messages": turns()})).unwrap();
    assert_eq!((request.model.as_deref(), request.streamed, request.keep_alive), (None, true, None));
    let chat = as_chat(request);
    assert!(
        chat.add_generation_prompt && chat.stream.on && chat.max_tokens.is_none() && chat.guided.is_none()
    );
    for unbounded in [0, -1, -2] {
        let asked = with(json!({"options": {"num_predict": unbounded}})).unwrap();
        assert_eq!(as_chat(asked).max_tokens, None, "{unbounded}");
    }
    for nothing in
        [json!({"format": ""}), json!({"format": null}), json!({"options": null}), json!({"tools": []})]
    {
        as_chat(with(nothing).unwrap());
    }
}

#[test]
fn a_schema_is_held_with_all_its_digits() {
    let body = br#"{"messages": [{"role": "user", "content": "a"}],
        "format": {"type": "object", "properties": {"n": {"const": 12345678901234567890123}}}}"#;
    let guided = as_chat(OllamaRequest::parse_chat(body).unwrap()).guided.unwrap();
    let Form::Schema(schema) = guided.form else { panic!("{:?}", guided.form) };
    assert_eq!(schema.exact, [("/properties/n/const".to_owned(), "12345678901234567890123".to_owned())]);
    assert_eq!(guided.field, "format");
}

#[test]
fn nothing_to_answer_loads_the_model() {
    for body in [json!({}), json!({"messages": []}), json!({"messages": null, "keep_alive": -1})] {
        assert_eq!(chat(&body).unwrap().ask, Ask::Load, "{body}");
    }
    for body in [json!({"model": "m"}), json!({"prompt": ""}), json!({"prompt": "", "keep_alive": 0})] {
        assert_eq!(generate(&body).unwrap().ask, Ask::Load, "{body}");
    }
    let unload = generate(&json!({"model": "m", "keep_alive": "0"})).unwrap();
    assert!(unload.keep_alive.unwrap().unloads());
}

#[test]
fn a_prompt_is_a_conversation_or_a_raw_text() {
    let system = json!({"prompt": "hi", "system": "Be brief."});
    let messages = as_chat(generate(&system).unwrap()).messages;
    let said: Vec<&str> = messages.iter().map(|m| m["content"].as_str().unwrap()).collect();
    assert_eq!(said, ["Be brief.", "hi"]);
    let raw = json!({"prompt": "[INST] hi", "raw": true, "options": {"num_predict": 5}, "logprobs": true});
    let text = as_text(generate(&raw).unwrap());
    assert_eq!(text.prompts, [Prompt::Text("[INST] hi".into())]);
    assert_eq!((text.max_tokens, text.logprobs, text.add_special_tokens), (Some(5), Some(0), true));
    let begun =
        json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "So"}]});
    let begun = as_chat(chat(&begun).unwrap());
    assert!(begun.continue_final_message && !begun.add_generation_prompt);
}

#[test]
fn what_cannot_be_had_is_named() {
    let at = |outcome: Result<OllamaRequest, Fault>| outcome.unwrap_err().param.unwrap();
    for (extra, param) in [
        (json!({"messages": [{"role": "robot", "content": "x"}]}), "messages[0].role"),
        (json!({"messages": [{"content": "x"}]}), "messages[0].role"),
        (json!({"messages": [{"role": "user", "content": "x", "images": ["aGk="]}]}), "messages[0].images"),
        (json!({"messages": [{"role": "user", "content": "x", "thinking": 1}]}), "messages[0].thinking"),
        (json!({"options": {"temperature": 9}}), "options.temperature"),
        (json!({"options": {"num_predict": -3}}), "options.num_predict"),
        (json!({"options": {"stop": [""]}}), "options.stop[0]"),
        (json!({"options": [1]}), "options"),
        (json!({"temperature": 0.5}), "temperature"),
        (json!({"max_tokens": 5}), "max_tokens"),
        (json!({"template": "{{ .Prompt }}"}), "template"),
        (json!({"format": "xml"}), "format"),
        (json!({"format": ["json"]}), "format"),
        (json!({"think": "hard"}), "think"),
        (json!({"think": 1}), "think"),
        (json!({"keep_alive": "soon"}), "keep_alive"),
        (json!({"top_logprobs": 3}), "top_logprobs"),
        (json!({"tools": [{"type": "search"}]}), "tools[0].type"),
    ] {
        assert_eq!(at(with(extra.clone())), param, "{extra}");
    }
    for (body, param) in [
        (json!({"prompt": "a", "suffix": "b"}), "suffix"),
        (json!({"prompt": "a", "images": ["aGk="]}), "images"),
        (json!({"prompt": "a", "context": [1, 2]}), "context"),
        (json!({"prompt": "a", "raw": true, "system": "s"}), "system"),
        (json!({"prompt": "a", "raw": true, "think": true}), "think"),
        (json!({"prompt": ["a"]}), "prompt"),
        (json!({"prompt": "a", "messages": turns()}), "messages"),
    ] {
        assert_eq!(at(generate(&body)), param, "{body}");
    }
}

#[test]
fn wishes_that_change_no_answer_are_told() {
    let warnings = |extra: Value| as_chat(with(extra).unwrap()).warnings;
    assert!(warnings(json!({"truncate": true}))[0].starts_with("truncate is left out"));
    assert!(warnings(json!({"options": {"tfs_z": 0.9}}))[0].starts_with("options.tfs_z is left out"));
    assert!(warnings(json!({"options": {"temprature": 1}}))[0].contains("temperature"));
    let harmless =
        json!({"keep_alive": "5m", "options": {"tfs_z": 1, "num_keep": 4, "use_mmap": true}, "shift": true});
    assert_eq!(warnings(harmless), Vec::<String>::new());
}

#[test]
fn a_model_is_shown_by_either_name() {
    let parse = |body: Value| ShowRequest::parse(body.to_string().as_bytes()).map(|show| show.model);
    assert_eq!(parse(json!({"model": "m", "verbose": true})).unwrap(), "m");
    assert_eq!(parse(json!({"name": "m"})).unwrap(), "m");
    assert_eq!(parse(json!({"model": "", "name": "n"})).unwrap(), "n");
    assert_eq!(parse(json!({})).unwrap_err().param.as_deref(), Some("model"));
}
