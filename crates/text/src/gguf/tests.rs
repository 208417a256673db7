//! Vocabularies that lie.

use super::{Vocabulary, load};
use crate::tokenizer::Tokenizer;
use crate::{Error, Special};
use weights::gguf::{Array, Metadata, Value};

fn strings(list: &[&str]) -> Value {
    Value::Array(Array::String(list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>().into()))
}

/// A byte-level vocabulary with the keys given changed (`None`: absent).
fn open(changes: &[(&str, Option<Value>)]) -> Result<Tokenizer, Error> {
    let base = [
        ("model", Value::String("gpt2".into())),
        ("pre", Value::String("gpt-2".into())),
        ("tokens", strings(&["a", "b", "ab", "<|end|>"])),
        ("token_type", Value::Array(Array::I32(vec![1, 1, 1, 3]))),
        ("merges", strings(&["a b"])),
        ("eos_token_id", Value::U32(3)),
    ];
    let mut metadata = Metadata::default();
    for (key, value) in base {
        let change = changes.iter().find(|(name, _)| *name == key).map(|(_, value)| value.clone());
        if let Some(value) = change.unwrap_or(Some(value)) {
            metadata.insert(format!("tokenizer.ggml.{key}"), value);
        }
    }
    for (key, value) in changes {
        if let Some(value) = value {
            metadata.insert(format!("tokenizer.ggml.{key}"), value.clone());
        }
    }
    Vocabulary::read(&metadata).and_then(load).and_then(Tokenizer::assemble)
}

fn problem(changes: &[(&str, Option<Value>)]) -> String {
    open(changes).expect_err("is refused").to_string()
}

#[test]
fn the_base_is_fine() {
    let tokenizer = open(&[]).expect("opens");
    assert_eq!(tokenizer.encode("ab<|end|>", Special::Parse, false).expect("encodes"), [2, 3]);
    assert_eq!(tokenizer.ends(), [3]);
}

#[test]
fn what_is_missing_is_named() {
    for (key, word) in
        [("model", "tokenizer.ggml.model"), ("tokens", "tokenizer.ggml.tokens"), ("merges", "merges")]
    {
        let message = problem(&[(key, None)]);
        assert!(message.contains(word), "{key}: {message}");
    }
    let spm = [("model", Some(Value::String("llama".into())))];
    assert!(problem(&spm).contains("tokenizer.ggml.scores"));
    let bos = [("add_bos_token", Some(Value::Bool(true)))];
    assert!(problem(&bos).contains("tokenizer.ggml.bos_token_id"));
}

#[test]
fn said_badly_a_missing_pre_is_a_warning() {
    for pre in [None, Some(Value::String(String::new()))] {
        let tokenizer = open(&[("pre", pre)]).expect("opens");
        let [remark] = tokenizer.remarks() else { panic!("one remark: {:?}", tokenizer.remarks()) };
        assert!(remark.contains("tokenizer.ggml.pre is missing"), "{remark}");
    }
    assert!(open(&[]).expect("opens").remarks().is_empty());
}

#[test]
fn what_is_wrong_is_named() {
    let cases: [(&str, Value, &[&str]); 9] = [
        ("model", Value::String("rwkv".into()), &["rwkv", "gpt2, llama"]),
        ("pre", Value::String("martian".into()), &["martian", "qwen2"]),
        ("tokens", strings(&["a", "b", "a", "<|end|>"]), &["\"a\"", "id 0", "id 2"]),
        ("tokens", Value::U32(4), &["tokens", "a list of texts"]),
        ("eos_token_id", Value::U32(77), &["eos_token_id", "77", "4 tokens"]),
        ("token_type", Value::Array(Array::I32(vec![1])), &["token_type", "1 values for 4"]),
        ("scores", Value::Array(Array::F32(vec![0.0; 2])), &["scores", "2 values for 4"]),
        ("merges", strings(&["a z"]), &["merges", "z"]),
        ("merges", strings(&["ab"]), &["merges[0]", "not two pieces"]),
    ];
    for (key, value, words) in cases {
        let message = problem(&[(key, Some(value))]);
        assert!(words.iter().all(|word| message.contains(word)), "{key}: {message}");
    }
}

#[test]
fn scores_that_are_no_numbers_are_refused() {
    for model in ["llama", "t5"] {
        let changes = [
            ("model", Some(Value::String(model.into()))),
            ("scores", Some(Value::Array(Array::F32(vec![0.0, f32::NAN, 1.0, 0.0])))),
        ];
        assert!(problem(&changes).contains("scores[1]"));
    }
}

#[test]
fn a_broken_charsmap_is_refused() {
    for bytes in [
        vec![],
        vec![1],
        vec![255; 4],
        vec![255, 255, 255, 255, 0, 0],
        vec![8, 0, 0, 0, 1, 2, 3],
        vec![4, 0, 0, 0, 255, 255, 255, 255, 0],
    ] {
        let changes = [
            ("model", Some(Value::String("t5".into()))),
            ("scores", Some(Value::Array(Array::F32(vec![-1.0; 4])))),
            ("unknown_token_id", Some(Value::U32(0))),
            ("precompiled_charsmap", Some(Value::Array(Array::U8(bytes)))),
        ];
        // Refused, or of no effect; never a panic.
        if let Ok(tokenizer) = open(&changes) {
            let _ = tokenizer.encode("ab é", Special::Plain, true);
        }
    }
}

#[test]
fn ends_that_a_file_calls_ordinary_are_control_tokens() {
    let types = Value::Array(Array::I32(vec![1, 1, 1, 1]));
    let tokenizer = open(&[("token_type", Some(types))]).expect("opens");
    assert!(tokenizer.is_special(3) && tokenizer.is_end(3));
    assert!(!tokenizer.is_special(2));
}
