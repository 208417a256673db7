//! Word by word and by the library: the same tokens.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::{Special, Tokenizer};
use crate::{EncodeError, TokenLimit};

const TINY: [&str; 6] = [
    "byte-level.json",
    "byte-level.gguf",
    "sentencepiece-bpe.gguf",
    "sentencepiece-unigram.gguf",
    "unigram.json",
    "word-piece.json",
];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn tiny(name: &str) -> Tokenizer {
    Tokenizer::open_path(&fixtures().join("tiny").join(name)).expect("opens")
}

/// Both ways, in both moods; how many tokens the text has.
fn same(name: &str, tokenizer: &Tokenizer, text: &str) -> usize {
    let mut count = 0;
    for special in [Special::Parse, Special::Plain] {
        let walked = tokenizer.encode(text, special, false).expect("encodes");
        let whole = tokenizer.encode_whole(text, special).expect("encodes");
        let shown: String = text.chars().take(200).collect();
        assert!(walked == whole, "{name}, {special:?}: {shown:?}");
        let bound = tokenizer.fewest_tokens(text);
        assert!(bound <= walked.len(), "{name}: {bound} > {} of {shown:?}", walked.len());
        count = walked.len();
    }
    count
}

/// Texts that have no place to be parted, and some that have many.
fn long_texts() -> Vec<String> {
    let prose =
        "The miller's daughter ground 1,234 sacks of flour;\r\n\r\n  \t Größe 你好世界 e\u{301} 😀!\n";
    let units = [
        "7",
        "a",
        "aB",
        " ",
        "\n",
        "\r\n \n",
        "你",
        "한",
        "e\u{301}",
        "\u{1100}\u{1161}",
        "😀",
        "-",
        "(=)",
        prose,
    ];
    units.iter().map(|unit| unit.repeat(30_000 / unit.len())).collect()
}

#[test]
fn abuse_a2_words_are_what_the_library_makes_of_the_whole_text() {
    let strings = std::fs::read_to_string(fixtures().join("strings.jsonl")).expect("committed");
    let strings: Vec<String> =
        strings.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for name in TINY {
        let tokenizer = tiny(name);
        strings.iter().chain(&long_texts()).for_each(|text| _ = same(name, &tokenizer, text));
        same(name, &tokenizer, &strings.concat());
    }
    let walked = TINY.map(|name| tiny(name).words.is_some());
    assert_eq!(walked, [true, true, true, false, false, false], "{TINY:?}");
}

#[test]
fn abuse_a2_a_text_beyond_the_limit_is_given_up_early() {
    let tokenizer = tiny("byte-level.json");
    let text = "7".repeat(1 << 20);
    let limit = TokenLimit { max_tokens: 5, should_stop: &|| false };
    let fewest = tokenizer.fewest_tokens(&text);
    assert!(fewest > 10_000, "{fewest}");
    // Its bytes alone say so.
    let refused = tokenizer.encode_within(&text, Special::Parse, true, &limit);
    assert_eq!(refused, Err(EncodeError::TooMany { at_least: fewest, worked: 0 }));
    // The tokens do.
    let limit = TokenLimit { max_tokens: 1_000, should_stop: &|| false };
    let refused = tokenizer.encode_within(
        "a ",
        Special::Parse,
        false,
        &TokenLimit { max_tokens: 0, should_stop: &|| false },
    );
    assert_eq!(refused, Err(EncodeError::TooMany { at_least: 1, worked: 0 }));
    let words = "a b ".repeat(limit.max_tokens);
    let refused = tokenizer.encode_within(&words[..limit.max_tokens * 3], Special::Parse, false, &limit);
    assert!(
        matches!(refused, Err(EncodeError::TooMany { worked, .. }) if worked <= limit.max_tokens + 1),
        "{refused:?}"
    );
    let at_once = TokenLimit { max_tokens: usize::MAX, should_stop: &|| true };
    let stopped = tokenizer.encode_within("a", Special::Parse, false, &at_once);
    assert_eq!(stopped, Err(EncodeError::Stopped { worked: 0 }));
}

/// A word that is nowhere cut is given up within itself.
#[test]
fn abuse_a1_a_long_word_is_given_up_when_its_client_leaves() {
    let tokenizer = tiny("sentencepiece-bpe.gguf");
    let asked = std::cell::Cell::new(0);
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > 2
    };
    let limit = TokenLimit { max_tokens: usize::MAX, should_stop: &stop };
    let stopped = tokenizer.encode_within(&"the".repeat(100_000), Special::Parse, false, &limit);
    assert!(matches!(stopped, Err(EncodeError::Stopped { .. })), "{stopped:?}");
}

proptest! {
    #[test]
    fn any_text(text in "(<\\|im_end\\|>|<s>|</s>|[a-z ]{1,9}|[0-9]{1,5}|\\s{1,5}|\\PC{1,9}|e\u{301}){0,30}") {
        for name in TINY {
            same(name, &tiny(name), &text);
        }
    }
}
