//! Bodies in, requests or faults out.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use proptest::prelude::*;
use serde_json::{Value, json};
use wire::completion::Prompt;
use wire::{ChatRequest, CompletionRequest, Fault, limits};

fn chat(extra: Value) -> Result<ChatRequest, Fault> {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    merge(&mut body, extra);
    ChatRequest::parse(body.to_string().as_bytes())
}

fn completion(extra: Value) -> Result<CompletionRequest, Fault> {
    let mut body = json!({"prompt": "hi"});
    merge(&mut body, extra);
    CompletionRequest::parse(body.to_string().as_bytes())
}

fn merge(body: &mut Value, extra: Value) {
    for (name, value) in extra.as_object().unwrap() {
        body[name] = value.clone();
    }
}

/// What was sent, the `param` of the fault, and words its message must have: the value and the limit.
const BAD_CHAT: &[(&str, &str, &[&str])] = &[
    (r#"{"temperature": 2.5}"#, "temperature", &["2.5", "between 0 and 2"]),
    (r#"{"temperature": -1}"#, "temperature", &["-1", "between 0 and 2"]),
    (r#"{"temperature": "hot"}"#, "temperature", &["number", "hot"]),
    (r#"{"temperature": 1e300}"#, "temperature", &["1e+300", "between 0 and 2"]),
    (r#"{"top_p": 1.01}"#, "top_p", &["1.01", "between 0 and 1"]),
    (r#"{"min_p": -0.1}"#, "min_p", &["-0.1", "between 0 and 1"]),
    (r#"{"typical_p": 7}"#, "typical_p", &["7", "between 0 and 1"]),
    (r#"{"top_k": -2}"#, "top_k", &["-2", "-1"]),
    (r#"{"top_k": 1.5}"#, "top_k", &["1.5", "whole"]),
    (r#"{"n": 0}"#, "n", &["0", "between 1 and 16"]),
    (r#"{"n": 17}"#, "n", &["17", "between 1 and 16"]),
    (r#"{"n": 1e30}"#, "n", &["1e+30", "between 1 and 16"]),
    (r#"{"max_tokens": 0}"#, "max_tokens", &["0", "between 1"]),
    (r#"{"max_tokens": -5}"#, "max_tokens", &["-5", "between 1"]),
    (r#"{"max_tokens": "5"}"#, "max_tokens", &["whole number", "5"]),
    (r#"{"max_tokens": 5, "max_completion_tokens": 6}"#, "max_tokens", &["5", "6"]),
    (r#"{"frequency_penalty": 2.1}"#, "frequency_penalty", &["2.1", "between -2 and 2"]),
    (r#"{"presence_penalty": -2.1}"#, "presence_penalty", &["-2.1", "between -2 and 2"]),
    (r#"{"repetition_penalty": 0}"#, "repetition_penalty", &["0", "between 0.01 and 100"]),
    (r#"{"seed": "x"}"#, "seed", &["whole number", "x"]),
    (r#"{"stream": "yes"}"#, "stream", &["true or false", "yes"]),
    (r#"{"stream_options": {"include_usage": true}}"#, "stream_options", &["stream must be true"]),
    (r#"{"stream": true, "stream_options": {"include_usage": 1}}"#, "stream_options.include_usage", &["1"]),
    (r#"{"stop": ""}"#, "stop", &["empty"]),
    (r#"{"stop": ["a", 5]}"#, "stop[1]", &["string", "5"]),
    (r#"{"stop": 5}"#, "stop", &["string", "5"]),
    (
        r#"{"stop": ["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"]}"#,
        "stop",
        &["17", "16"],
    ),
    (r#"{"stop_token_ids": [1, -1]}"#, "stop_token_ids[1]", &["-1"]),
    (r#"{"logprobs": 5}"#, "logprobs", &["true or false", "5"]),
    (r#"{"logprobs": true, "top_logprobs": 21}"#, "top_logprobs", &["21", "between 0 and 20"]),
    (r#"{"top_logprobs": 2}"#, "top_logprobs", &["logprobs must be true"]),
    (r#"{"logit_bias": {"x": 1}}"#, "logit_bias", &["x", "token ids"]),
    (r#"{"logit_bias": {"5": 101}}"#, "logit_bias.5", &["101", "between -100 and 100"]),
    (r#"{"logit_bias": [[5]]}"#, "logit_bias[0]", &["1 entries"]),
    (r#"{"logit_bias": 3}"#, "logit_bias", &["object", "3"]),
    (r#"{"messages": []}"#, "messages", &["empty"]),
    (r#"{"messages": null}"#, "messages", &["required"]),
    (r#"{"messages": "hi"}"#, "messages", &["array", "hi"]),
    (r#"{"messages": [5]}"#, "messages[0]", &["object", "5"]),
    (r#"{"messages": [{"content": "x"}]}"#, "messages[0].role", &["required"]),
    (r#"{"messages": [{"role": "king", "content": "x"}]}"#, "messages[0].role", &["king", "assistant"]),
    (r#"{"messages": [{"role": "user"}]}"#, "messages[0].content", &["required"]),
    (r#"{"messages": [{"role": "user", "content": 5}]}"#, "messages[0].content", &["5"]),
    (
        r#"{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}"#,
        "messages[0].content[0].type",
        &["image_url", "text only"],
    ),
    (
        r#"{"messages": [{"role": "user", "content": [{"type": "text"}]}]}"#,
        "messages[0].content[0].text",
        &["required"],
    ),
    (
        r#"{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}]}"#,
        "messages[0].tool_calls[0].function.arguments",
        &["JSON"],
    ),
    (
        r#"{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}]}]}"#,
        "messages[0].tool_calls[0].function.arguments",
        &["object"],
    ),
    (r#"{"tools": [{"type": "function"}]}"#, "tools[0].function", &["required"]),
    (r#"{"tools": [{"type": "computer"}]}"#, "tools[0].type", &["computer"]),
    (r#"{"tool_choice": "required"}"#, "tool_choice", &["no tools"]),
    (r#"{"tool_choice": "perhaps"}"#, "tool_choice", &["perhaps", "none, auto, required"]),
    (r#"{"tool_choice": {"type": "function"}}"#, "tool_choice.function", &["required"]),
    (
        r#"{"tools": [{"type": "function", "function": {"name": "g"}}],
            "tool_choice": {"type": "function", "function": {"name": "f"}}}"#,
        "tool_choice.function.name",
        &["\"f\"", "the tools are g"],
    ),
    (
        r#"{"response_format": {"type": "json_schema", "json_schema": {}}}"#,
        "response_format.json_schema.schema",
        &["required"],
    ),
    (r#"{"response_format": {"type": "xml"}}"#, "response_format.type", &["xml", "json_schema"]),
    (r#"{"response_format": {"type": "json_object", "schema": 5}}"#, "response_format.schema", &["number 5"]),
    (r#"{"grammar": "start: \"a\"", "json_schema": {}}"#, "grammar", &["json_schema and grammar"]),
    (r#"{"structured_outputs": {"choice": []}}"#, "structured_outputs.choice", &["empty"]),
    (
        r#"{"structured_outputs": {"structural_tag": {}}}"#,
        "structured_outputs.structural_tag",
        &["not built"],
    ),
    (r#"{"thinking_token_budget": -2}"#, "thinking_token_budget", &["-2"]),
    (r#"{"functions": [{"name": "f"}]}"#, "functions", &["tools"]),
    (r#"{"best_of": 3}"#, "best_of", &["3"]),
    (r#"{"min_tokens": 3, "max_tokens": 2}"#, "min_tokens", &["3", "max_tokens, 2"]),
    (r#"{"bad_words": [7]}"#, "bad_words[0]", &["number 7"]),
    (r#"{"samplers": "kt~"}"#, "samplers", &["~", "top_k"]),
    (r#"{"guided_json": "{"}"#, "guided_json", &["not valid JSON"]),
    (r#"{"modalities": ["text", "audio"]}"#, "modalities", &["text only"]),
    (
        r#"{"chat_template_kwargs": {"messages": []}}"#,
        "chat_template_kwargs.messages",
        &["field of the request"],
    ),
    (r#"{"dry_sequence_breakers": [""]}"#, "dry_sequence_breakers[0]", &["empty"]),
    (r#"{"xtc_probability": 2}"#, "xtc_probability", &["2", "between 0 and 1"]),
    (r#"{"model": 5}"#, "model", &["string", "5"]),
];

#[test]
fn bad_values_name_their_field() {
    for (extra, param, words) in BAD_CHAT {
        let fault = chat(serde_json::from_str(extra).unwrap()).expect_err(extra);
        assert_eq!(fault.status, 400, "{extra}");
        assert_eq!(fault.param.as_deref(), Some(*param), "{extra}: {fault}");
        for word in *words {
            assert!(fault.message.contains(word), "{extra}: {:?} lacks {word:?}", fault.message);
        }
    }
}

#[test]
fn bad_completions_name_their_field() {
    let many: Vec<&str> = vec!["x"; limits::PROMPTS + 1];
    let table: Vec<(Value, &str)> = vec![
        (json!({"prompt": null}), "prompt"),
        (json!({"prompt": []}), "prompt"),
        (json!({"prompt": [[]]}), "prompt[0]"),
        (json!({"prompt": [1, -1]}), "prompt[1]"),
        (json!({"prompt": [1, "a"]}), "prompt[0]"),
        (json!({"prompt": ["a", [1], {}]}), "prompt[2]"),
        (json!({"prompt": [4294967296u64]}), "prompt[0]"),
        (json!({"prompt": 7}), "prompt"),
        (json!({"prompt": many}), "prompt"),
        (json!({"prompt": ["a","b","c","d","e"], "n": 16}), "n"),
        (json!({"suffix": 7}), "suffix"),
        (json!({"prompt": [1], "suffix": "x"}), "suffix"),
        (json!({"best_of": 1, "n": 2}), "best_of"),
        (json!({"best_of": 2, "stream": true}), "best_of"),
        (json!({"logprobs": 21}), "logprobs"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"max_tokens": 0, "echo": true, "min_tokens": 1}), "min_tokens"),
        (json!({"prompt_logprobs": 21}), "prompt_logprobs"),
        (json!({"prompt_logprobs": -1}), "prompt_logprobs"),
        (json!({"prompt_logprobs": true}), "prompt_logprobs"),
        (json!({"prompt_logprobs": 0, "stream": true}), "prompt_logprobs"),
        (json!({"echo": 1}), "echo"),
    ];
    for (extra, param) in table {
        let fault = completion(extra.clone()).expect_err(&extra.to_string());
        assert_eq!((fault.status, fault.param.as_deref()), (400, Some(param)), "{extra}: {fault}");
    }
}

#[test]
fn not_json_says_where() {
    let fault = ChatRequest::parse(b"{\n  \"messages\": [,]\n}").expect_err("a comma");
    assert_eq!(fault.code, Some("invalid_json"));
    assert!(fault.message.contains("line 2 column 16"), "{fault}");
    for body in ["", "[]", "5", "\"x\"", "{} {}", "\u{feff}{}", "nul"] {
        assert_eq!(ChatRequest::parse(body.as_bytes()).expect_err(body).status, 400, "{body}");
    }
    let deep = "[".repeat(100_000);
    assert!(ChatRequest::parse(deep.as_bytes()).expect_err("deep").message.contains("128 levels"));
    assert!(ChatRequest::parse(b"{\"messages\": \"\xff\"}").is_err());
    assert!(ChatRequest::parse(br#"{"messages": [{"role": "user", "content": "\ud800"}]}"#).is_err());
}

#[test]
fn forms_arrive_under_all_their_names() {
    use wire::guided::Form;
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let form = |extra: Value| chat(extra).unwrap().guided.map(|guided| (guided.field, guided.form));
    let is =
        |extra: Value, field: &str, wanted: Form| assert_eq!(form(extra), Some((field.to_owned(), wanted)));
    let open = |value: &Value| {
        Form::Schema(wire::guided::Schema { value: value.clone(), exact: Vec::new(), closed: false })
    };
    let strict =
        Form::Schema(wire::guided::Schema { value: schema.clone(), exact: Vec::new(), closed: true });
    let format =
        json!({"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": schema}});
    is(json!({"response_format": format}), "response_format.json_schema.schema", strict.clone());
    is(
        json!({"structured_outputs": {"json": schema, "disable_additional_properties": true}}),
        "structured_outputs.json",
        strict,
    );
    is(json!({"response_format": {"type": "json_object"}}), "response_format", Form::Object);
    is(
        json!({"response_format": {"type": "json_object", "schema": schema}}),
        "response_format",
        open(&schema),
    );
    is(json!({"json_schema": schema}), "json_schema", open(&schema));
    is(json!({"guided_json": schema.to_string()}), "guided_json", open(&schema));
    is(json!({"structured_outputs": {"json": schema}}), "structured_outputs.json", open(&schema));
    is(json!({"structured_outputs": {"json_object": true}}), "structured_outputs.json_object", Form::Object);
    is(json!({"guided_regex": "a+"}), "guided_regex", Form::Regex("a+".into()));
    is(json!({"guided_choice": ["a", "b"]}), "guided_choice", Form::Choice(vec!["a".into(), "b".into()]));
    is(json!({"grammar": "start: \"a\""}), "grammar", Form::Grammar("start: \"a\"".into()));
    // What a double does not hold arrives as it was written, by its place in the schema.
    let body = br#"{"messages": [{"role": "user", "content": "a"}], "guided_json": {"enum": [1, 12345678901234567890123]}}"#;
    let Some(Form::Schema(schema)) = ChatRequest::parse(body).unwrap().guided.map(|guided| guided.form)
    else {
        panic!("a schema")
    };
    assert_eq!(schema.exact, [("/enum/1".to_owned(), "12345678901234567890123".to_owned())]);
    let space = |extra: Value| chat(extra).unwrap().guided.expect("a form").space;
    let pattern = json!({"json": {}, "whitespace_pattern": " {0,2}"});
    assert_eq!(
        space(json!({ "structured_outputs": pattern })),
        wire::guided::Space::Pattern(" {0,2}".into())
    );
    let none = json!({"json": {}, "disable_any_whitespace": true});
    assert_eq!(space(json!({ "structured_outputs": none })), wire::guided::Space::Compact);
    for nothing in
        [json!({"grammar": ""}), json!({"response_format": {"type": "text"}}), json!({"guided_json": null})]
    {
        assert_eq!(form(nothing), None);
    }
}

#[test]
fn choices_of_tools_and_thoughts_arrive() {
    use wire::message::ToolChoice;
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}});
    let with = |choice: Value| chat(json!({"tools": [tool], "tool_choice": choice})).unwrap();
    assert_eq!(with(Value::Null).tool_choice, ToolChoice::Auto);
    assert_eq!(with(json!("none")).tool_choice, ToolChoice::None);
    assert_eq!(with(json!("required")).tool_choice, ToolChoice::Required);
    let named = with(json!({"type": "function", "function": {"name": "f"}}));
    assert_eq!(named.tool_choice, ToolChoice::Named("f".into()));
    assert!(named.parallel_tool_calls && named.include_reasoning);
    let quiet = chat(json!({
        "parallel_tool_calls": false, "include_reasoning": false, "reasoning_budget": 40, "reasoning_effort": "none"
    }));
    let quiet = quiet.unwrap();
    assert!(!quiet.parallel_tool_calls && !quiet.include_reasoning);
    assert_eq!(quiet.thinking_budget, Some(40));
    assert_eq!(quiet.template_arguments["enable_thinking"], false);
    assert_eq!(chat(json!({"reasoning_budget": -1})).unwrap().thinking_budget, None);
}

#[test]
fn good_values_arrive() {
    let request = chat(json!({
        "unknown": {"anything": [1, 2]}, "temperature": 0, "top_k": -1, "top_p": 0.9, "n": 2, "seed": -1,
        "max_completion_tokens": 7, "stop": "END", "stream": true, "stream_options": {"include_usage": true},
        "logprobs": true, "top_logprobs": 3, "logit_bias": {"17": -100, "4": 1.5}, "typ_p": 0.7,
        "repeat_penalty": 1.1, "response_format": {"type": "text"}, "best_of": 1, "tool_choice": "auto",
        "user": null, "ignore_eos": true, "stop_token_ids": [3, 4], "reasoning_effort": "low"
    }))
    .unwrap();
    assert_eq!(request.sampling.temperature, Some(0.0));
    assert_eq!(request.sampling.top_k, Some(0));
    assert_eq!(request.sampling.seed, None);
    assert_eq!(request.sampling.logit_bias, vec![(17, -100.0), (4, 1.5)]);
    assert_eq!(request.sampling.typical_p, Some(0.7));
    assert_eq!(request.sampling.repetition_penalty, Some(1.1));
    assert_eq!(request.sampling.stop, vec!["END"]);
    assert_eq!(request.sampling.stop_token_ids, vec![3, 4]);
    assert_eq!((request.max_tokens, request.n, request.logprobs), (Some(7), 2, Some(3)));
    assert!(request.stream.on && request.stream.usage && request.sampling.ignore_eos);
    assert_eq!(request.template_arguments["reasoning_effort"], "low");
    assert_eq!(chat(json!({"seed": 9007199254740993u64})).unwrap().sampling.seed, Some(9007199254740993));
    assert_eq!(
        chat(json!({"logit_bias": [[5, false]]})).unwrap().sampling.logit_bias,
        vec![(5, f32::NEG_INFINITY)]
    );
    assert_eq!(chat(json!({"logprobs": true})).unwrap().logprobs, Some(0));
    assert_eq!(chat(json!({"logprobs": false, "top_logprobs": 0})).unwrap().logprobs, None);
}

#[test]
fn messages_take_the_templates_form() {
    let request = chat(json!({"messages": [
        {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "user", "content": "q", "name": "eve"},
        {"role": "assistant", "content": null,
         "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "2"}
    ]}))
    .unwrap();
    assert_eq!(
        Value::Array(request.messages),
        json!([
            {"role": "developer", "content": "a\nb"},
            {"role": "user", "content": "q", "name": "eve"},
            {"role": "assistant", "content": "",
             "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]},
            {"role": "tool", "content": "2", "tool_call_id": "c1"}
        ])
    );
}

#[test]
fn prompts_in_every_form() {
    let text = |s: &str| Prompt::Text(s.into());
    assert_eq!(completion(json!({"prompt": "a"})).unwrap().prompts, vec![text("a")]);
    assert_eq!(completion(json!({"prompt": ["a", "b"]})).unwrap().prompts, vec![text("a"), text("b")]);
    assert_eq!(completion(json!({"prompt": [1, 2]})).unwrap().prompts, vec![Prompt::Tokens(vec![1, 2])]);
    let two = vec![Prompt::Tokens(vec![1]), Prompt::Tokens(vec![2, 3])];
    assert_eq!(completion(json!({"prompt": [[1], [2, 3]]})).unwrap().prompts, two);
    assert_eq!(completion(json!({})).unwrap().max_tokens, Some(16));
}

/// JSON with the field names that the parsers know, and values of every kind in the wrong places.
fn any_body() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|f| json!(f)),
        ".{0,8}".prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "messages",
        "role",
        "content",
        "type",
        "text",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "prompt",
        "n",
        "stop",
        "logit_bias",
        "5",
        "logprobs",
        "top_logprobs",
        "stream",
        "stream_options",
        "include_usage",
        "tools",
        "tool_choice",
        "parameters",
        "temperature",
        "seed",
        "max_tokens",
        "response_format",
        "json_schema",
        "structured_outputs",
        "choice",
        "regex",
        "grammar",
        "chat_template_kwargs",
        "suffix",
        "echo",
        "prompt_logprobs",
        "stop_token_ids",
        "dry_sequence_breakers",
        "samplers",
        "bad_words",
        "allowed_token_ids",
        "truncate_prompt_tokens",
        "continue_final_message",
        "best_of",
    ]);
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..6)
                .prop_map(|m| Value::Object(m.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        ]
    })
}

proptest! {
    #[test]
    fn nothing_panics(body in any_body()) {
        let bytes = body.to_string().into_bytes();
        for fault in [ChatRequest::parse(&bytes).err(), CompletionRequest::parse(&bytes).err()].into_iter().flatten() {
            prop_assert!((400..500).contains(&fault.status));
            prop_assert!(fault.message.len() < 2_000, "{}", fault.message.len());
            serde_json::from_str::<Value>(&fault.json()).unwrap();
        }
    }
}
