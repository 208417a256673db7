//! tokenizer.json, and what the tokenizer it makes does with a text. Input: the JSON, a zero byte, the text.
//!
//! Looks for: a panic, and tokens outside the vocabulary.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let at = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (json, rest) = bytes.split_at(at);
    let Ok(tokenizer) = text::Tokenizer::from_json(json) else { return };
    let text = String::from_utf8_lossy(rest.get(1..).unwrap_or_default());
    for special in [text::Special::Parse, text::Special::Plain] {
        if let Ok(tokens) = tokenizer.encode(&text, special, true) {
            for &token in &tokens {
                assert!(
                    (token as usize) < tokenizer.vocab_size(),
                    "token {token} of {}",
                    tokenizer.vocab_size()
                );
            }
            let _ = tokenizer.decode(&tokens, false);
        }
    }
});
