//! Packed tokenizers, and what they do with a text. Input: the length of the index (u32), the index, the length of the
//! tables (u32), the tables, the text; the checksum of the file, which no change by chance would meet, is left out.
//!
//! Looks for: a panic, and tokens outside the vocabulary.
#![no_main]

use libfuzzer_sys::fuzz_target;
use text::{PackedTokenizer, Special, Tokenizer};

/// What a length is of, and what is behind it.
fn part(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some((part.to_vec(), rest))
}

fuzz_target!(|bytes: &[u8]| {
    let Some((index, rest)) = part(bytes) else { return };
    let Some((data, text)) = part(rest) else { return };
    let Ok(tokenizer) = Tokenizer::from_packed(PackedTokenizer { index, data }, "key") else { return };
    let text = String::from_utf8_lossy(text);
    for special in [Special::Parse, Special::Plain] {
        let Ok(tokens) = tokenizer.encode(&text, special, true) else { continue };
        for &token in &tokens {
            assert!((token as usize) < tokenizer.vocab_size(), "token {token} of {}", tokenizer.vocab_size());
        }
        let _ = tokenizer.decode(&tokens, false);
    }
});
