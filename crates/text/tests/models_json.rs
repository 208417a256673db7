//! Published `tokenizer.json` files against Hugging Face tokenizers, on all strings of `fixtures/strings.jsonl`.
//!
//! The files follow their models' licences and are not committed: `tools/fixtures/fetch_vocabularies.py` fetches them,
//! `cargo test -p text --test text -- --ignored models_json` compares. Expectations: `tools/fixtures/tokenizers.py models`.

use crate::support;

use text::Tokenizer;

fn check(name: &str) {
    let tokenizer = Tokenizer::open_path(&support::vocabularies().join(name)).expect("opens");
    support::compare(name, &tokenizer);
}

#[test]
#[ignore = "needs tools/fixtures/fetch_vocabularies.py"]
fn qwen3() {
    check("qwen3");
}

#[test]
#[ignore = "needs tools/fixtures/fetch_vocabularies.py"]
fn llama3_1() {
    check("llama3_1");
}

#[test]
#[ignore = "needs tools/fixtures/fetch_vocabularies.py"]
fn gemma3() {
    check("gemma3");
}

#[test]
#[ignore = "needs tools/fixtures/fetch_vocabularies.py"]
fn deepseek_v3() {
    check("deepseek_v3");
}

#[test]
#[ignore = "needs tools/fixtures/fetch_vocabularies.py"]
fn gpt35turbo() {
    check("gpt35turbo");
}
