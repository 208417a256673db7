//! Streaming detokenization.

use std::sync::Arc;

use crate::Tokenizer;
use crate::token_bytes::TokenPosition;

/// A streaming detokenizer, which emits whole UTF-8 characters only.
///
/// All that [`push`](DecodeStream::push) and [`finish`](DecodeStream::finish) return, put together, is the text of the
/// tokens with each invalid byte sequence replaced by U+FFFD (as `String::from_utf8_lossy` does it). At most three
/// bytes are held back. Control tokens have no text by default.
pub struct DecodeStream {
    tokenizer: Arc<Tokenizer>,
    show_special: bool,
    /// Control tokens that are shown although `show_special` is false.
    shown: Vec<u32>,
    start: TokenPosition,
    pending: Vec<u8>,
    ready: String,
}

impl DecodeStream {
    /// For tokens that continue a prompt: keeps the space that SentencePiece puts into the first token.
    pub fn new(tokenizer: Arc<Tokenizer>) -> DecodeStream {
        DecodeStream {
            tokenizer,
            show_special: false,
            shown: Vec::new(),
            start: TokenPosition::Middle,
            pending: Vec::new(),
            ready: String::new(),
        }
    }

    /// For tokens that begin a text: the output equals that of [`Tokenizer::decode`].
    pub fn from_start(tokenizer: Arc<Tokenizer>) -> DecodeStream {
        DecodeStream { start: TokenPosition::Text, ..DecodeStream::new(tokenizer) }
    }

    /// Sets whether control tokens are shown, by name.
    pub fn show_special(mut self, yes: bool) -> DecodeStream {
        self.show_special = yes;
        self
    }

    /// Shows these control tokens by name: marks that the answer parser looks for.
    pub fn showing(mut self, ids: &[u32]) -> DecodeStream {
        self.shown = ids.to_vec();
        self
    }

    /// Decodes the next token; returns the characters that are now complete, which may be none. Ids beyond the
    /// vocabulary have no text.
    pub fn push(&mut self, id: u32) -> &str {
        self.ready.clear();
        if !self.show_special && self.tokenizer.is_special(id) && !self.shown.contains(&id) {
            return &self.ready;
        }
        self.start = self.tokenizer.append(id, self.start, &mut self.pending);
        complete(&mut self.pending, &mut self.ready);
        &self.ready
    }

    /// Ends the stream; an incomplete character becomes U+FFFD.
    pub fn finish(&mut self) -> String {
        let rest = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        rest
    }
}

/// Moves complete characters from `pending` to `ready`, with U+FFFD for invalid bytes.
fn complete(pending: &mut Vec<u8>, ready: &mut String) {
    let mut done = 0;
    while done < pending.len() {
        match std::str::from_utf8(&pending[done..]) {
            Ok(text) => {
                ready.push_str(text);
                done = pending.len();
            }
            Err(error) => {
                let valid = done + error.valid_up_to();
                ready.push_str(&String::from_utf8_lossy(&pending[done..valid]));
                done = valid;
                let Some(broken) = error.error_len() else { break };
                ready.push(char::REPLACEMENT_CHARACTER);
                done += broken;
            }
        }
    }
    pending.drain(..done);
}

#[cfg(test)]
mod tests {
    use super::complete;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn byte_by_byte_equals_lossy(bytes in proptest::collection::vec(
            prop_oneof![any::<u8>(), Just(0xf0), Just(0x9f), Just(0x98), Just(0x80), Just(0xe4), Just(b'a')], 0..40)) {
            let (mut pending, mut all) = (Vec::new(), String::new());
            for byte in &bytes {
                pending.push(*byte);
                let mut ready = String::new();
                complete(&mut pending, &mut ready);
                prop_assert!(pending.len() < 4);
                all.push_str(&ready);
            }
            all.push_str(&String::from_utf8_lossy(&pending));
            prop_assert_eq!(all, String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}
