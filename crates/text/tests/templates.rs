//! Chat templates: as transformers renders them, and as hostile files may have them.

mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use text::{ChatTemplate, TemplateError};

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
        let expected = std::fs::read_to_string(path.with_extension("json")).expect("its chats");
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
    assert!(count >= 9 * 25, "{count} chats");
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
    let llama2 = ChatTemplate::named("llama2").expect("known");
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
