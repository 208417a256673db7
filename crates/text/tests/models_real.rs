//! Vocabularies and templates inside real models, against Hugging Face tokenizers built from the same merges and against
//! transformers' chats.

use crate::support;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use text::{ChatTemplate, Tokenizer};
use weights::fetch::NoProgress;
use weights::store::ModelStore;

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
