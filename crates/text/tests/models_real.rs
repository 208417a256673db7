//! Vocabularies and templates inside real models, against Hugging Face tokenizers built from the same merges and against
//! transformers' chats.

use crate::support;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use text::{ChatTemplate, Infill, TokenLimit, Tokenizer};
use weights::fetch::NoProgress;
use weights::store::ModelStore;

/// A text with a gap has the model's three marks, one before each part, and no others.
#[test]
#[ignore = "needs: gristmill pull qwen2.5-coder-0.5b-instruct"]
fn qwen2_5_coder_fills_in() {
    let home = ModelStore::from_env(|name| std::env::var_os(name)).expect("a home");
    let path =
        weights::store::resolve("qwen2.5-coder-0.5b-instruct", &home, &mut NoProgress).expect("is pulled");
    let tokenizer = Tokenizer::open_path(&path).expect("has a tokenizer");
    assert!(tokenizer.fills_in());
    let (prefix, suffix) = ("def add(a, b):\n".to_owned(), "\n\nprint(add(1, 2))<|fim_middle|>\n".to_owned());
    let extra = vec![("one.py".to_owned(), "x = 1\n".to_owned())];
    let infill = Infill { prefix, suffix, extra };
    let tokens = tokenizer.encode_infill(&infill, 8, &TokenLimit::NONE).expect("encodes").tokens;
    let special: Vec<&str> = tokens
        .iter()
        .filter(|id| tokenizer.is_special(**id))
        .filter_map(|id| tokenizer.token_text(*id))
        .collect();
    let marks = [
        "<|repo_name|>",
        "<|file_sep|>",
        "<|file_sep|>",
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
    ];
    assert_eq!(special, marks);
    assert_eq!(tokens.last().copied(), tokenizer.token_id("<|fim_middle|>"));
}

fn check(model: &str, file: &str, has_template: bool) {
    let home = ModelStore::from_env(|name| std::env::var_os(name)).expect("a home");
    let path = weights::store::resolve(model, &home, &mut NoProgress).expect("is pulled");
    let opened = weights::opened::open(&path).expect("opens");
    let tokenizer = Arc::new(Tokenizer::open(&opened).expect("has a tokenizer"));
    support::compare(&format!("gguf-{file}"), &tokenizer);
    support::compare_stream(tokenizer.clone(), &support::strings());
    let template = ChatTemplate::open(&opened, &tokenizer).expect("compiles");
    assert_eq!(template.is_some(), has_template, "{model}");
    let Some(template) = template else { return };
    let expected =
        std::fs::read_to_string(support::fixtures().join("expected-chats.json")).expect("committed");
    let mut expected: BTreeMap<String, BTreeMap<String, Value>> =
        serde_json::from_str(&expected).expect("JSON");
    let expected = expected.remove(&format!("gguf-{file}")).expect("is listed");
    let template = template.with_clock(|| support::NOW);
    for chat in support::chats() {
        let want = &expected[&chat.name];
        let ours =
            support::render(&template, &chat).ok().map(|text| format!("{:08x}", support::fnv(text.bytes())));
        assert!(*want == Value::Bool(false) || want.as_str() == ours.as_deref(), "{model}: {}", chat.name);
    }
}

#[test]
#[ignore = "needs: gristmill pull smollm2-135m-instruct"]
fn smollm2() {
    check("smollm2-135m-instruct", "smollm2-135m-instruct-q4_1", true);
}

#[test]
#[ignore = "needs: gristmill pull qwen2.5-coder-0.5b-instruct"]
fn qwen2_5_coder() {
    check("qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-0.5b-instruct-q4_k_m", true);
}

#[test]
#[ignore = "needs: gristmill pull gemma3-270m"]
fn gemma3() {
    check("gemma3-270m", "gemma-3-270m-q4_k_m", false);
}
