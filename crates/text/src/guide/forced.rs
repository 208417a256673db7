//! From bytes that must come to the tokens that will.

use llguidance::toktrie::{TokTrie, parse_numeric_token};

use crate::{Special, Tokenizer};

/// Most bytes that are made into tokens, which is more than is proposed at a time: what must come may be as long as a
/// schema, and each token that another way of writing chooses has the rest made into tokens anew.
const MOST_BYTES: usize = 512;

/// Adds the tokens of the first `bytes`, in which a control token is written as the library does: a mark and `[id]`.
/// Text that the tokenizer would write with more than it says (a space in front) ends them, and so does half a
/// character.
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
    // Its whole characters.
    let text = text.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let tokens = tokenizer.encode(text, Special::Plain, false).ok()?;
    let said = tokens.iter().flat_map(|token| tokenizer.token_bytes(*token).unwrap_or_default());
    said.eq(text.as_bytes()).then_some(tokens)
}
