//! Forced tokens: tokenizes the bytes that a grammar forces next (llguidance's fast-forward tokens).

use llguidance::toktrie::{TokTrie, parse_numeric_token};

use crate::{Special, Tokenizer};

/// The most bytes that are tokenized, which exceeds what is proposed at a time. Forced text can be as long as a schema,
/// and is tokenized again whenever the model chooses another tokenization of it.
const MOST_BYTES: usize = 512;

/// Appends the tokens of the first [`MOST_BYTES`] of `bytes`, in which a control token is the library's marker and
/// `[id]`. Stops at an incomplete character, and at text that does not round-trip (for example because the tokenizer
/// adds a leading space).
pub(super) fn tokens(bytes: &[u8], tokenizer: &Tokenizer, out: &mut Vec<u32>) {
    let bytes = &bytes[..bytes.len().min(MOST_BYTES)];
    let mut parts = bytes.split(|byte| *byte == TokTrie::SPECIAL_TOKEN_MARKER);
    let mut text = parts.next().unwrap_or_default();
    loop {
        let Some(encoded) = encode(text, tokenizer) else { return };
        out.extend(encoded);
        let Some(part) = parts.next().filter(|part| !part.is_empty()) else { return };
        let Some((len, id)) = parse_numeric_token(part) else { return };
        out.push(id);
        text = &part[len..];
    }
}

fn encode(text: &[u8], tokenizer: &Tokenizer) -> Option<Vec<u32>> {
    // Complete characters only.
    let text = text.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let tokens = tokenizer.encode(text, Special::Plain, false).ok()?;
    let said = tokens.iter().flat_map(|token| tokenizer.token_bytes(*token).unwrap_or_default());
    said.eq(text.as_bytes()).then_some(tokens)
}
