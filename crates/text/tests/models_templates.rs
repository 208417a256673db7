//! Published chat templates against transformers' `apply_chat_template`, on all conversations of `fixtures/chats.json`.
//!
//! Templates of models whose licence does not let us pass them on are fetched by `tools/fixtures/fetch_vocabularies.py`;
//! what is expected of them is committed as hashes (`tools/fixtures/templates.py fetched`).

use crate::support;

use std::collections::BTreeMap;

use serde_json::Value;
use text::ChatTemplate;

type Expected = BTreeMap<String, BTreeMap<String, Value>>;

fn expected() -> Expected {
    let path = support::fixtures().join("expected-chats.json");
    serde_json::from_str(&std::fs::read_to_string(path).expect("expected-chats.json is committed"))
        .expect("JSON")
}

/// Where we differ on purpose. This template joins text marked `safe` with a tool's JSON, which makes Jinja2 escape the JSON
/// for HTML (`&#34;`), though transformers escapes nowhere else; models are not trained on that.
const ESCAPED: &str = "meetkai-functionary-medium-v3.1";

fn compare(name: &str, template: &ChatTemplate, wrong: &mut Vec<String>) {
    let expected = expected().remove(name).unwrap_or_else(|| panic!("{name} is not in expected-chats.json"));
    for chat in support::chats() {
        let ours = support::render(template, &chat);
        let want = &expected[&chat.name];
        let hash = ours.as_ref().ok().map(|text| format!("{:08x}", support::fnv(text.bytes())));
        if name == ESCAPED && chat.tools.as_ref().is_some_and(|tools| !tools.is_empty()) {
            continue;
        }
        if *want != Value::Bool(false) && want.as_str() != hash.as_deref() {
            wrong.push(format!("{name}: {}: want {want:?}, ours {ours:?}", chat.name));
        }
    }
}

fn report(wrong: &[String], of: usize) {
    if let Some(folder) = std::env::var_os("GRISTMILL_SHOW_CHATS") {
        std::fs::write(folder, wrong.join("\n")).expect("writes");
    }
    let shown: Vec<String> = wrong.iter().take(20).map(|line| line.chars().take(600).collect()).collect();
    assert!(wrong.is_empty(), "{} chats of {of} templates differ:\n{}", wrong.len(), shown.join("\n"));
}

#[test]
#[ignore = "needs tools/fixtures/fetch_vocabularies.py"]
fn templates_of_llama_cpp() {
    let folder = support::vocabularies().join("templates");
    let mut wrong = Vec::new();
    let mut count = 0;
    for name in expected().keys().filter(|name| !name.starts_with("json-") && !name.starts_with("gguf-")) {
        let source = std::fs::read_to_string(folder.join(format!("{name}.jinja"))).expect("fetched");
        match ChatTemplate::compile(&source) {
            Ok(template) => {
                let template = template.with_tokens(support::tokens()).with_clock(|| support::NOW);
                compare(name, &template, &mut wrong);
            }
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
        count += 1;
    }
    assert!(count >= 60, "{count} templates");
    report(&wrong, count);
}

#[test]
#[ignore = "needs tools/fixtures/fetch_vocabularies.py"]
fn templates_in_tokenizer_config() {
    let mut wrong = Vec::new();
    for name in ["qwen3", "llama3_1", "gemma3", "deepseek_v3"] {
        let path = support::vocabularies().join(name).join("tokenizer_config.json");
        let config: Value = serde_json::from_slice(&std::fs::read(path).expect("fetched")).expect("JSON");
        let template =
            ChatTemplate::from_parts(None, Some(&config)).expect("compiles").expect("has a template");
        compare(&format!("json-{name}"), &template.with_clock(|| support::NOW), &mut wrong);
    }
    report(&wrong, 4);
}
