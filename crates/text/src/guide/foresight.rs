//! From bytes that must come to the tokens that will.

use llguidance::toktrie::TokTrie;

use crate::{Special, Tokenizer};

/// Adds the tokens of `bytes`, in which a control token is written as the library does: a mark and `[id]`. Text that is no whole UTF-8, or
/// that the tokenizer would write with more than it says (a space in front), ends them.
pub(super) fn tokens(bytes: &[u8], tokenizer: &Tokenizer, out: &mut Vec<u32>) {
    for (at, part) in bytes.split(|byte| *byte == TokTrie::SPECIAL_TOKEN_MARKER).enumerate() {
        let (control, text) = if at == 0 { (None, part) } else { marked(part) };
        out.extend(control);
        if at > 0 && control.is_none() {
            return;
        }
        let Some(encoded) = encode(text, tokenizer) else { return };
        out.extend(encoded);
    }
}

/// What follows a mark: `[id]`, then text.
fn marked(part: &[u8]) -> (Option<u32>, &[u8]) {
    let Some(end) = part.iter().position(|byte| *byte == b']') else { return (None, part) };
    let id = part[..end].strip_prefix(b"[").and_then(|id| std::str::from_utf8(id).ok());
    (id.and_then(|id| id.parse().ok()), &part[end + 1..])
}

fn encode(text: &[u8], tokenizer: &Tokenizer) -> Option<Vec<u32>> {
    let text = std::str::from_utf8(text).ok()?;
    let tokens = tokenizer.encode(text, Special::Plain, false).ok()?;
    let said = tokens.iter().flat_map(|token| tokenizer.token_bytes(*token).unwrap_or_default());
    said.eq(text.as_bytes()).then_some(tokens)
}
