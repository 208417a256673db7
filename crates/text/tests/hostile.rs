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

fn chain(key: &str, list: &str, step: Value, count: usize) -> Result<Tokenizer, Error> {
    let kind = json!({"type": "Sequence", list: vec![step; count]});
    with(key, kind)
}

#[test]
fn abuse_a7_normalizers_that_grow_are_refused() {
    let doubling = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
    let message = problem(chain("/normalizer", "normalizers", doubling.clone(), 26));
    assert!(
        message.contains("Replace") && message.contains("67108864") && message.contains("4096"),
        "{message}"
    );
    let prepend = json!({"type": "Prepend", "prepend": "aaaa"});
    let message = problem(chain("/normalizer", "normalizers", prepend, 500));
    assert!(message.contains("number of normalizers is 500"), "{message}");
    // What the checks at load let pass is bounded by the text.
    let some = chain("/normalizer", "normalizers", doubling, 12).expect("opens");
    let grown = some.encode(&"a".repeat(100_000), text::Special::Parse, false).map(|tokens| tokens.len());
    let message = grown.expect_err("grows too much").to_string();
    assert!(message.contains("normalizer"), "{message}");
    assert_eq!(some.encode("b", text::Special::Parse, false).expect("encodes"), [1]);
    let nested = (0..20).fold(
        json!({"type": "Lowercase"}),
        |inner, _| json!({"type": "Sequence", "normalizers": [inner.clone(), inner]}),
    );
    let message = problem(with("/normalizer", nested));
    assert!(message.contains("normalizers") || message.contains("nesting"), "{message}");
}

#[test]
fn abuse_a7_pre_tokenizers_without_end_are_refused() {
    let message = problem(chain("/pre_tokenizer", "pretokenizers", json!({"type": "Whitespace"}), 400));
    assert!(message.contains("number of pre-tokenizers is 400"), "{message}");
    let split = |pattern: &str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    for slow in ["(?:(?=a)a|aa?)+(?=\u{2})", "(a|aa)+(?!.)\u{2}", "(?:(?=a)a|a)*b"] {
        let message = problem(with("/pre_tokenizer", split(slow)));
        assert!(message.contains("Split") && message.contains("too long"), "{slow}: {message}");
    }
    let message = problem(with("/pre_tokenizer", split(&"a".repeat(20_000))));
    assert!(message.contains("20000"), "{message}");
    assert!(with("/pre_tokenizer", split("(")).is_err());
    let message = problem(with("/pre_tokenizer", json!({"type": "FixedLength", "length": 0})));
    assert!(message.contains("FixedLength"), "{message}");
    // The patterns of GPT-2, GPT-4 and Llama 3 pass.
    for pattern in [
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|\p{N}{1,3}|\s+(?!\S)|\s+",
    ] {
        with("/pre_tokenizer", split(pattern)).expect("opens");
    }
}

#[test]
fn abuse_a7_what_stands_around_a_text_is_bounded() {
    let many: Vec<Value> = (0..1000).map(|_| json!({"SpecialToken": {"id": "<s>", "type_id": 0}})).collect();
    let processor = json!({"type": "TemplateProcessing", "single": many, "pair": [],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [3], "tokens": ["<s>"]}}});
    let message = problem(with("/post_processor", processor));
    assert!(message.contains("around a text"), "{message}");
    let word_piece = json!({"type": "WordPiece", "vocab": {"a": 0, "b": 1, "ab": 2, "[UNK]": 4}, "unk_token": "[UNK]",
        "continuing_subword_prefix": "##", "max_input_chars_per_word": 1_000_000_000});
    let message = problem(with("/model", word_piece));
    assert!(message.contains("max_input_chars_per_word"), "{message}");
}

#[test]
fn said_badly_a_folder_with_only_tokenizer_model() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("tokenizer.model"), b"\x0a\x0e").expect("writes");
    let message = problem(Tokenizer::open_path(folder.path()));
    assert!(
        message.contains("SentencePiece") && message.contains("tokenizer.json") && message.contains("GGUF"),
        "{message}"
    );
}
