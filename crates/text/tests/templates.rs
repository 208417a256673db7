//! Chat templates: as transformers renders them, and as hostile files may have them.

use crate::support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use text::{ChatTemplate, ContentFormat, TemplateError};

fn hello() -> Vec<Value> {
    vec![json!({"role": "user", "content": "Hello"})]
}

fn render(source: &str) -> Result<String, TemplateError> {
    ChatTemplate::compile(source)?.with_clock(|| support::NOW).render(&hello(), None, true, &Map::new())
}

#[test]
fn equal_to_transformers() {
    let mut count = 0;
    for entry in std::fs::read_dir(support::fixtures().join("templates")).expect("committed") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "jinja") {
            continue;
        }
        let source = std::fs::read_to_string(&path).expect("a template");
        let template = ChatTemplate::compile(&source).expect("compiles").with_tokens(support::tokens());
        let template = template.with_clock(|| support::NOW);
        let parts = template.content_format("user").expect("found out") == ContentFormat::Parts;
        let expected = path.with_extension(if parts { "parts.json" } else { "json" });
        let expected = std::fs::read_to_string(expected).expect("its chats");
        let expected: BTreeMap<String, Value> = serde_json::from_str(&expected).expect("JSON");
        for chat in support::chats() {
            let ours = support::render(&template, &chat);
            match &expected[&chat.name] {
                Value::String(want) => {
                    assert_eq!(&ours.expect("renders"), want, "{}: {}", path.display(), chat.name)
                }
                Value::Null => assert!(ours.is_err(), "{}: {} is to be refused", path.display(), chat.name),
                // Python broke off there, which says nothing of what would be right.
                _ => {}
            }
            count += 1;
        }
    }
    assert!(count >= 13 * 25, "{count} chats");
}

#[test]
fn what_the_template_raises_comes_with_its_line() {
    let error = render(
        "line one\n{%- if true %}\n{{ raise_exception('no such role: ' ~ messages[0].role) }}{% endif %}",
    );
    let error = error.expect_err("raises");
    assert_eq!((error.line, error.message.as_str()), (Some(3), "no such role: user"));
    assert_eq!(error.to_string(), "chat template, line 3: no such role: user");
}

#[test]
fn a_syntax_error_comes_with_its_line() {
    let error = ChatTemplate::compile("a\nb\n{% for x in %}").expect_err("does not compile");
    assert_eq!(error.line, Some(3));
    let error =
        ChatTemplate::compile("{% include 'x' %}").and_then(|t| t.render(&hello(), None, true, &Map::new()));
    assert!(error.is_err());
}

/// Loops, recursion and doubling that would go on for longer than anyone waits.
#[test]
fn endless_templates_end() {
    let deep = format!("{}{}", "{% for a in range(1000) %}".repeat(8), "{% endfor %}".repeat(8));
    let wide =
        "{% for a in range(100000) %}{% for b in range(100000) %}{{ 'x' * 1000 }}{% endfor %}{% endfor %}";
    let recursive = "{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}";
    let repeated = "{{ 'x' * 99999999999 }}";
    for source in [deep.as_str(), wide, recursive, repeated] {
        let begin = Instant::now();
        let error = render(source).expect_err("ends with an error");
        assert!(!error.message.is_empty());
        assert!(begin.elapsed() < Duration::from_secs(20), "{source}: {:?}", begin.elapsed());
    }
}

#[test]
fn a_long_source_is_refused() {
    let error = ChatTemplate::compile(&"x".repeat(2 << 20)).expect_err("too long");
    assert!(error.message.contains("2097152") && error.message.contains("limit is"), "{error}");
}

#[test]
fn python_habits() {
    let cases = [
        ("{{ [1, 'a', none, true, 1.5, {'k': 'it\\'s'}] }}", "[1, 'a', None, True, 1.5, {'k': \"it's\"}]"),
        ("{{ {'a': [1, {'b': none}], 'é': '<&>'} | tojson }}", r#"{"a": [1, {"b": null}], "é": "<&>"}"#),
        ("{{ {'b': 1, 'a': []} | tojson(indent=2, sort_keys=true) }}", "{\n  \"a\": [],\n  \"b\": 1\n}"),
        ("{{ ['é😀\u{1}'] | tojson(ensure_ascii=true) }}", r#"["\u00e9\ud83d\ude00\u0001"]"#),
        ("{{ [1, 2] | tojson(separators=(',', ':')) }}", "[1,2]"),
        ("{{ strftime_now('%d %B %Y') }}", "21 November 2026"),
        ("{% generation %}a{% endgeneration %}\n{%- generation -%} b {%- endgeneration -%} c", "abc"),
        ("{{ [][::-1] | list }}{{ 'abc'[::-1] }}{{ [1, 2, 3][::-1] }}", "[]cba[3, 2, 1]"),
        ("{{ ' x '.strip() ~ 'a-b'.partition('-')[2] ~ 'prefix'.removeprefix('pre') }}", "xbfix"),
        ("{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "13"),
        (
            "{% set ns = namespace(n=0) %}{% for x in [1, 2] %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}",
            "3",
        ),
        ("{{ 'x' is sequence }}{{ {} is iterable }}{{ missing | length }}", "TrueTrue0"),
        ("a\r\n{% if true %}\r\nb\r\n{% endif %}\r\n", "a\nb\n"),
        ("{{ 'a,b,c'.rsplit(',', 1) }}", "['a,b', 'c']"),
    ];
    for (source, want) in cases {
        assert_eq!(render(source).unwrap_or_else(|e| panic!("{source}: {e}")), want, "{source}");
    }
}

#[test]
fn every_named_format_renders_a_chat() {
    let chat = [
        json!({"role": "user", "content": "Hi"}),
        json!({"role": "assistant", "content": "Hello."}),
        json!({"role": "user", "content": "Bye"}),
    ];
    let mut names = 0;
    for name in ChatTemplate::names() {
        let template = ChatTemplate::named(name).expect("known");
        let text = template.render(&chat, None, true, &Map::new()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let order =
            ["Hi", "Hello.", "Bye"].map(|word| text.find(word).unwrap_or_else(|| panic!("{name}: {text}")));
        assert!(order.is_sorted(), "{name}: {text}");
        names += 1;
    }
    assert!(names >= 8);
    assert!(ChatTemplate::named("no such format").is_none());
    let chatml = ChatTemplate::named("chatml").expect("known");
    let text = chatml.render(&hello(), None, true, &Map::new()).expect("renders");
    assert_eq!(text, "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
    let llama2 = ChatTemplate::named("llama2-sys").expect("known");
    let chat = [json!({"role": "system", "content": "S"}), json!({"role": "user", "content": "U"})];
    let text = llama2.render(&chat, None, true, &Map::new()).expect("renders");
    assert_eq!(text, "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST]");
}

#[test]
fn a_list_of_templates_has_one_for_tools() {
    let config = json!({
        "chat_template": [
            {"name": "default", "template": "plain {{ bos_token }}"},
            {"name": "tool_use", "template": "tools {{ tools | length }}"},
        ],
        "bos_token": {"content": "<s>", "special": true},
    });
    let template = ChatTemplate::from_parts(None, Some(&config)).expect("compiles").expect("has one");
    assert_eq!(template.render(&hello(), None, true, &Map::new()).expect("renders"), "plain <s>");
    assert_eq!(template.render(&hello(), Some(&[json!({})]), true, &Map::new()).expect("renders"), "tools 1");
    let template = ChatTemplate::from_parts(Some("file {{ bos_token }}"), Some(&config)).expect("compiles");
    assert_eq!(
        template.expect("has one").render(&hello(), None, true, &Map::new()).expect("renders"),
        "file <s>"
    );
    assert!(ChatTemplate::from_parts(None, Some(&json!({}))).expect("fine").is_none());
}

/// What llama.cpp makes of the same conversation by each name, from its `tests/test-chat-template.cpp` (03f94f1), without
/// the token that begins a text, which its tokenizer adds.
#[test]
fn fault_01_named_formats_are_those_of_llama_cpp() {
    let turns = [
        ("system", "You are a helpful assistant"),
        ("user", "Hello"),
        ("assistant", "Hi there"),
        ("user", "Who are you"),
        ("assistant", "   I am an assistant   "),
        ("user", "Another question"),
    ];
    let chat: Vec<Value> = turns.iter().map(|(role, text)| json!({"role": role, "content": text})).collect();
    let cases = [
        (
            "llama2",
            "[INST] You are a helpful assistant\nHello [/INST]Hi there</s>[INST] Who are you [/INST]   I am an assistant   </s>[INST] Another question [/INST]",
        ),
        (
            "llama2-sys-bos",
            "[INST] <<SYS>>\nYou are a helpful assistant\n<</SYS>>\n\nHello [/INST]Hi there</s><s>[INST] Who are you [/INST]   I am an assistant   </s><s>[INST] Another question [/INST]",
        ),
        (
            "llama2-sys-strip",
            "[INST] <<SYS>>\nYou are a helpful assistant\n<</SYS>>\n\nHello [/INST]Hi there</s>[INST] Who are you [/INST]I am an assistant</s>[INST] Another question [/INST]",
        ),
        (
            "monarch",
            "system\nYou are a helpful assistant</s>\n<s>user\nHello</s>\n<s>assistant\nHi there</s>\n<s>user\nWho are you</s>\n<s>assistant\n   I am an assistant   </s>\n<s>user\nAnother question</s>\n<s>assistant\n",
        ),
        (
            "gemma",
            "<start_of_turn>user\nYou are a helpful assistant\n\nHello<end_of_turn>\n<start_of_turn>model\nHi there<end_of_turn>\n<start_of_turn>user\nWho are you<end_of_turn>\n<start_of_turn>model\nI am an assistant<end_of_turn>\n<start_of_turn>user\nAnother question<end_of_turn>\n<start_of_turn>model\n",
        ),
        (
            "orion",
            "Human: You are a helpful assistant\n\nHello\n\nAssistant: </s>Hi there</s>Human: Who are you\n\nAssistant: </s>   I am an assistant   </s>Human: Another question\n\nAssistant: </s>",
        ),
        (
            "openchat",
            "You are a helpful assistant<|end_of_turn|>GPT4 Correct User: Hello<|end_of_turn|>GPT4 Correct Assistant: Hi there<|end_of_turn|>GPT4 Correct User: Who are you<|end_of_turn|>GPT4 Correct Assistant:    I am an assistant   <|end_of_turn|>GPT4 Correct User: Another question<|end_of_turn|>GPT4 Correct Assistant:",
        ),
        (
            "deepseek",
            "You are a helpful assistant### Instruction:\nHello\n### Response:\nHi there\n<|EOT|>\n### Instruction:\nWho are you\n### Response:\n   I am an assistant   \n<|EOT|>\n### Instruction:\nAnother question\n### Response:\n",
        ),
        (
            "vicuna",
            "You are a helpful assistant\n\nUSER: Hello\nASSISTANT: Hi there</s>\nUSER: Who are you\nASSISTANT:    I am an assistant   </s>\nUSER: Another question\nASSISTANT:",
        ),
        (
            "vicuna-orca",
            "SYSTEM: You are a helpful assistant\nUSER: Hello\nASSISTANT: Hi there</s>\nUSER: Who are you\nASSISTANT:    I am an assistant   </s>\nUSER: Another question\nASSISTANT:",
        ),
        (
            "command-r",
            "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>You are a helpful assistant<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_TOKEN|>Hello<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>Hi there<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_TOKEN|>Who are you<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>I am an assistant<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_TOKEN|>Another question<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
        ),
        (
            "llama3",
            "<|start_header_id|>system<|end_header_id|>\n\nYou are a helpful assistant<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHi there<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nWho are you<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nI am an assistant<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nAnother question<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        (
            "phi3",
            "<|system|>\nYou are a helpful assistant<|end|>\n<|user|>\nHello<|end|>\n<|assistant|>\nHi there<|end|>\n<|user|>\nWho are you<|end|>\n<|assistant|>\n   I am an assistant   <|end|>\n<|user|>\nAnother question<|end|>\n<|assistant|>\n",
        ),
    ];
    for (name, want) in cases {
        let template = ChatTemplate::named(name).expect("is known");
        let text = template.render(&chat, None, true, &Map::new()).expect("renders");
        let begins = ["<s>", "<bos>", "<BOS_TOKEN>", "<|begin_of_text|>", "<｜begin▁of▁sentence｜>"];
        let text = begins.iter().find_map(|token| text.strip_prefix(token)).unwrap_or(&text);
        assert_eq!(text, want, "{name}");
    }
}
