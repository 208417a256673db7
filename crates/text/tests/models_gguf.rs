//! Vocabularies in GGUF files against Hugging Face tokenizers built from the same vocabulary and merges, and against the
//! `.inp`/`.out` pairs that llama.cpp keeps beside its vocabulary files.
//!
//! `tools/fixtures/fetch_vocabularies.py` fetches the files; `tools/fixtures/tokenizers.py models` writes the expectations.

use crate::support;

use text::{Special, Tokenizer};

fn open(name: &str) -> Tokenizer {
    let path = support::vocabularies().join(format!("gguf/ggml-vocab-{name}.gguf"));
    Tokenizer::open_path(&path).unwrap_or_else(|e| panic!("{name}: {e}"))
}

const NAMES: [&str; 15] = [
    "llama-bpe",
    "llama-spm",
    "phi-3",
    "qwen2",
    "qwen35",
    "gemma-4",
    "bert-bge",
    "gpt-2",
    "mpt",
    "falcon",
    "starcoder",
    "refact",
    "deepseek-llm",
    "deepseek-coder",
    "command-r",
];

#[test]
#[ignore = "needs tools/fixtures/fetch_vocabularies.py"]
fn equal_to_hugging_face() {
    let mut failed = Vec::new();
    for name in NAMES {
        let tokenizer = open(name);
        let run = || support::compare(&format!("gguf-{name}"), &tokenizer);
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:?} differ");
}

#[test]
#[ignore = "needs tools/fixtures/fetch_vocabularies.py"]
fn equal_to_the_pairs_of_llama_cpp() {
    let mut failed = Vec::new();
    for name in NAMES {
        let read = |kind: &str| {
            let path = support::vocabularies().join(format!("gguf/ggml-vocab-{name}.gguf.{kind}"));
            std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        };
        let (inputs, outputs) = (read("inp"), read("out"));
        let tokenizer = open(name);
        let inputs: Vec<&str> = inputs.split("\n__ggml_vocab_test__\n").collect();
        let outputs: Vec<&str> = outputs.lines().collect();
        // The input ends with a separator.
        let inputs = &inputs[..inputs.len().min(outputs.len())];
        assert!(
            inputs.len() > 40 && inputs.len() == outputs.len(),
            "{name}: {} {}",
            inputs.len(),
            outputs.len()
        );
        for (input, output) in inputs.iter().zip(outputs) {
            let want: Vec<u32> = output.split_whitespace().map(|id| id.parse().expect("an id")).collect();
            let ours = tokenizer.encode(input, Special::Plain, false).expect("encodes");
            if ours != want {
                failed.push(format!("{name}: {input:?}\n  ours {ours:?}\n  want {want:?}"));
            }
        }
    }
    assert!(failed.is_empty(), "{} differ:\n{}", failed.len(), failed.join("\n"));
}

#[test]
#[ignore = "needs tools/fixtures/fetch_vocabularies.py"]
fn all_other_vocabularies_open() {
    for name in ["aquila", "baichuan", "gpt-neox", "nomic-bert-moe"] {
        let tokenizer = open(name);
        for text in support::strings() {
            let ids = tokenizer.encode(&text, Special::Plain, true).expect("encodes");
            assert!(ids.iter().all(|id| (*id as usize) < tokenizer.vocab_size()), "{name}: {text:?}");
        }
    }
}
