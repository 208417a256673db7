//! Heads of all dialects, and edits that leave other bytes as they were.

use proptest::prelude::*;
use serde_json::{Value, json};
use translation::{Dialect, Edit, Head};

fn read(dialect: Dialect, body: &Value) -> Head {
    Head::read(dialect, body.to_string().as_bytes()).unwrap()
}

fn refused(dialect: Dialect, body: &str) -> String {
    Head::read(dialect, body.as_bytes()).unwrap_err().message
}

#[test]
fn chat_heads_have_what_decisions_need() {
    let body = json!({
        "model": "m", "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 5,
        "max_completion_tokens": 7, "temperature": 0.5, "seed": -3, "n": 2, "user": "u", "service_tier": "flex",
        "priority": -1, "cache_salt": "s", "logprobs": true, "tools": [{"type": "function"}],
        "messages": [{"role": "system", "content": "a"}, {"role": "user", "content": [{"type": "image_url"}]},
            {"role": "tool", "content": "r"}],
    });
    let text = body.to_string();
    let head = Head::read(Dialect::OpenAiChat, text.as_bytes()).unwrap();
    assert_eq!(head.model.as_deref(), Some("m"));
    assert!(
        head.stream
            && head.include_usage
            && head.logprobs
            && head.has_tools
            && head.tool_turn
            && head.has_media
    );
    assert_eq!((head.max_tokens, head.temperature, head.seed, head.n), (Some(7), Some(0.5), Some(-3), 2));
    assert_eq!((head.user.as_deref(), head.service_tier.as_deref()), (Some("u"), Some("flex")));
    assert_eq!((head.priority.as_deref(), head.cache_salt.as_deref()), (Some("-1"), Some("s")));
    let messages: Vec<Value> =
        head.raw_messages(text.as_bytes()).map(|raw| serde_json::from_slice(raw).unwrap()).collect();
    assert_eq!(Value::Array(messages), body["messages"]);
    assert_eq!(head.raw_field(text.as_bytes(), "seed"), Some(&b"-3"[..]));
    assert!(!head.stateful);
}

#[test]
fn heads_of_other_dialects_have_the_same_meaning() {
    let responses = read(
        Dialect::OpenAiResponses,
        &json!({"model": "m", "input": [{"role": "user", "content": "x"}, {"type": "function_call_output"}],
            "instructions": "be", "max_output_tokens": 9, "include": ["message.output_text.logprobs"], "store": true}),
    );
    assert_eq!((responses.messages.len(), responses.max_tokens), (3, Some(9)));
    assert!(responses.messages[0].start > responses.messages[1].start, "the system prompt comes first");
    assert!(responses.tool_turn && responses.stateful && responses.logprobs);
    let text = read(Dialect::OpenAiResponses, &json!({"model": "m", "input": "x"}));
    assert_eq!(text.messages.len(), 1);
    let anthropic = read(
        Dialect::Anthropic,
        &json!({"model": "m", "max_tokens": 3, "system": [{"type": "text", "text": "s"}], "metadata": {"user_id": "u"},
            "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x"}]}]}),
    );
    assert_eq!(
        (anthropic.messages.len(), anthropic.user.as_deref(), anthropic.tool_turn),
        (2, Some("u"), true)
    );
    let gemini = read(
        Dialect::Gemini,
        &json!({"system_instruction": {"parts": []}, "contents": [{"parts": [{"inlineData": {}}]}],
            "generationConfig": {"maxOutputTokens": 4, "candidate_count": 2, "responseLogprobs": true, "seed": 1}}),
    );
    assert_eq!((gemini.messages.len(), gemini.max_tokens, gemini.n, gemini.seed), (2, Some(4), 2, Some(1)));
    assert!(gemini.logprobs && gemini.has_media && gemini.model.is_none());
}

#[test]
fn other_bodies_of_openai_have_heads() {
    let of = |body: Value| read(Dialect::OpenAiChat, &body).messages.len();
    assert_eq!(of(json!({"model": "m", "prompt": "x", "logprobs": 5})), 1);
    assert_eq!(of(json!({"model": "m", "prompt": [1, 2, 3]})), 1);
    assert_eq!(of(json!({"model": "m", "input": ["a", "b"]})), 2);
    assert_eq!(of(json!({"model": "m", "query": "q", "documents": ["a", "b"]})), 3);
}

#[test]
fn wrong_fields_are_named() {
    for (body, words) in [
        (r#"{"model": 5}"#, "model is 5; it must be a string"),
        (r#"{"max_tokens": "many"}"#, "max_tokens is \"many\"; it must be a whole number of at least 0"),
        (r#"{"max_tokens": -1}"#, "max_tokens is -1"),
        (r#"{"n": 1.5}"#, "n is 1.5"),
        (r#"{"stream": "yes"}"#, "stream is \"yes\"; it must be true or false"),
        (r#"{"temperature": 1e999}"#, "a finite number"),
        (r#"{"stream_options": {"include_usage": 1}}"#, "stream_options.include_usage is 1"),
        (r#"{"stream_options": []}"#, "stream_options is an array"),
        (r#"{"model": "a", "mod\u0065l": "b"}"#, "\"model\" is there twice"),
        (r#"{"stream_options": {"include_usage": true, "include_usage": false}}"#, "is there twice"),
        ("[1]", "an object is missing"),
        ("", "an object is missing at byte 0"),
        (r#"{"model": "a"} x"#, "trailing"),
        (r#"{"model": "a""#, "missing at byte 13"),
    ] {
        let message = refused(Dialect::OpenAiChat, body);
        assert!(message.contains(words), "{message} lacks {words}");
    }
    assert!(
        Head::read(Dialect::OpenAiChat, b"{\"model\": \"\xff\"}")
            .unwrap_err()
            .message
            .contains("UTF-8 at byte 11")
    );
}

#[test]
fn bodies_of_too_many_parts_are_refused() {
    let fields: Vec<String> = (0..300).map(|n| format!("\"k{n}\":{n}")).collect();
    assert!(
        refused(Dialect::OpenAiChat, &format!("{{{}}}", fields.join(","))).contains("more than 256 fields")
    );
    let messages = vec!["{}"; 70_000].join(",");
    assert!(
        refused(Dialect::Anthropic, &format!("{{\"messages\":[{messages}]}}"))
            .contains("more than 65536 messages")
    );
    let deep = format!("{{\"messages\":{}{}}}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    assert!(refused(Dialect::OpenAiChat, &deep).contains("deeper"));
}

#[test]
fn rewriting_keeps_every_other_byte() {
    let body = br#" { "messages" : [ {"content":"x"} ],"model":"client name" , "stream":true, "a": 1.50 } "#;
    let head = Head::read(Dialect::OpenAiChat, body).unwrap();
    let edit = Edit {
        model: Some("up/\"stream\""),
        include_usage: true,
        cache_salt: Some("t1"),
        extra: &[("a", json!([1])), ("stream", Value::Null)],
    };
    let out = head.rewrite(body, &edit);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        r#" { "messages" : [ {"content":"x"} ],"model":"up/\"stream\"", "a": [1] ,"stream_options":{"include_usage":true},"cache_salt":"t1"} "#
    );
    assert_eq!(head.rewrite(body, &Edit::default()), body);
}

#[test]
fn options_of_streams_keep_their_other_fields() {
    for (from, to) in [
        (r#"{"stream_options":{}}"#, r#"{"stream_options":{"include_usage":true}}"#),
        (r#"{"stream_options":null}"#, r#"{"stream_options":{"include_usage":true}}"#),
        (r#"{"stream_options":{"x":1}}"#, r#"{"stream_options":{"include_usage":true,"x":1}}"#),
        (r#"{"stream_options":{"include_usage":false}}"#, r#"{"stream_options":{"include_usage":true}}"#),
        ("{}", r#"{"stream_options":{"include_usage":true}}"#),
    ] {
        let head = Head::read(Dialect::OpenAiChat, from.as_bytes()).unwrap();
        let out = head.rewrite(from.as_bytes(), &Edit { include_usage: true, ..Edit::default() });
        assert_eq!(String::from_utf8(out).unwrap(), to);
    }
    let head = Head::read(Dialect::Anthropic, b"{}").unwrap();
    assert_eq!(head.rewrite(b"{}", &Edit { include_usage: true, ..Edit::default() }), b"{}");
}

proptest! {
    #[test]
    fn rewriting_sets_what_it_names_and_keeps_the_rest(
        names in proptest::collection::hash_set("[a-e]", 0..5),
        edits in proptest::collection::vec(("[a-g]", proptest::option::of(0_u8..9)), 0..6),
        spaces in "[ \n]{0,3}",
    ) {
        let parts: Vec<String> = names.iter().map(|name| format!("{spaces}\"{name}\"{spaces}:{spaces}[\"{name}\"]{spaces}")).collect();
        let body = format!("{spaces}{{{}{spaces}}}{spaces}", parts.join(","));
        let head = Head::read(Dialect::OpenAiChat, body.as_bytes()).unwrap();
        let extra: Vec<(&str, Value)> = edits.iter().map(|(name, value)| (name.as_str(), json!(value))).collect();
        let out = head.rewrite(body.as_bytes(), &Edit { extra: &extra, ..Edit::default() });
        let mut expected = serde_json::from_str::<Value>(&body).unwrap();
        for (name, value) in &edits {
            match value {
                Some(value) => expected[name] = json!(value),
                None => drop(expected.as_object_mut().unwrap().shift_remove(name)),
            }
        }
        let found: Value = serde_json::from_slice(&out).unwrap();
        prop_assert_eq!(found, expected, "{}", String::from_utf8_lossy(&out));
    }
}
