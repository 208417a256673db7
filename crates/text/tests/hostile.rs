//! Tokenizers that are broken or made to break us: a clear error, never a panic.

use std::path::Path;

use serde_json::{Value, json};
use text::{Error, Tokenizer};

fn base() -> Value {
    json!({
        "version": "1.0",
        "added_tokens": [{"id": 3, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true}],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
    })
}

fn with(path: &str, value: Value) -> Result<Tokenizer, Error> {
    let mut file = base();
    *file.pointer_mut(path).expect("a path of the file") = value;
    Tokenizer::from_json(file.to_string().as_bytes())
}

fn problem(result: Result<Tokenizer, Error>) -> String {
    result.expect_err("is refused").to_string()
}

#[test]
fn the_base_is_fine() {
    let tokenizer = Tokenizer::from_json(base().to_string().as_bytes()).expect("opens");
    assert_eq!(tokenizer.encode("ab<s>", text::Special::Parse, false).expect("encodes"), [2, 3]);
}

#[test]
fn duplicate_ids_are_named() {
    let message = problem(with("/model/vocab", json!({"a": 0, "b": 1, "ab": 1})));
    assert!(
        message.contains("token id 1") && message.contains("\"ab\"") && message.contains("\"b\""),
        "{message}"
    );
    let message = problem(with("/added_tokens/0/id", json!(0)));
    assert!(message.contains("token id 0") && message.contains("<s>"), "{message}");
}

#[test]
fn ids_out_of_range_are_named() {
    let message = problem(with("/added_tokens/0/id", json!(4_000_000_000_u32)));
    assert!(message.contains("4000000000") && message.contains("4194304"), "{message}");
    let message = problem(with("/model/vocab", json!({"a": 0, "b": 1, "ab": 50_000_000})));
    assert!(message.contains("50000000"), "{message}");
    let message = problem(with("/added_tokens/0/id", json!(9)));
    assert!(message.contains("<s>") && message.contains('9'), "{message}");
}

#[test]
fn merges_of_unknown_tokens_are_refused() {
    let message = problem(with("/model/merges", json!(["a z"])));
    assert!(message.contains('z'), "{message}");
    assert!(with("/model/merges", json!([["a"]])).is_err());
    assert!(with("/model/merges", json!(["a b c"])).is_err());
}

#[test]
fn an_empty_vocabulary_is_refused() {
    let mut file = base();
    file["model"] = json!({"type": "BPE", "vocab": {}, "merges": []});
    file["added_tokens"] = json!([]);
    assert!(problem(Tokenizer::from_json(file.to_string().as_bytes())).contains("no vocabulary"));
}

#[test]
fn an_unknown_decoder_is_named() {
    let message = problem(with("/decoder", json!({"type": "Telepathy"})));
    assert!(message.contains("Telepathy") && message.contains("ByteLevel"), "{message}");
}

#[test]
fn deep_nesting_is_refused() {
    for key in ["decoder", "normalizer", "pre_tokenizer", "other"] {
        let text = format!("{{\"{key}\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let message = problem(Tokenizer::from_json(text.as_bytes()));
        assert!(message.contains("nesting"), "{message}");
    }
}

#[test]
fn broken_json_is_refused() {
    let whole = base().to_string();
    for cut in 0..whole.len() {
        assert!(Tokenizer::from_json(&whole.as_bytes()[..cut]).is_err(), "cut at {cut}");
    }
    assert!(Tokenizer::from_json(b"\xff\xfe").is_err());
}

#[test]
fn missing_files_are_named() {
    let message = problem(Tokenizer::open_path(Path::new("/nowhere/tokenizer.json")));
    assert!(message.contains("/nowhere/tokenizer.json"), "{message}");
}
