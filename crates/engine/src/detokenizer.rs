//! The tokenizer as the engine's vocabulary.

use std::sync::Arc;

use text::{DecodeStream, Tokenizer};

use crate::{Detokenizer, Vocabulary};

impl Vocabulary for Tokenizer {
    fn is_end(&self, id: u32) -> bool {
        Tokenizer::is_end(self, id)
    }

    fn ends(&self) -> Vec<u32> {
        Tokenizer::ends(self).to_vec()
    }

    fn bytes(&self, id: u32) -> Vec<u8> {
        self.token_bytes(id).map(<[u8]>::to_vec).unwrap_or_default()
    }

    fn detokenizer(self: Arc<Self>, shown: &[u32]) -> Box<dyn Detokenizer> {
        Box::new(StreamDetokenizer(DecodeStream::new(self).showing(shown)))
    }
}

/// An answer continues a prompt: a space before its first word is kept.
struct StreamDetokenizer(DecodeStream);

impl Detokenizer for StreamDetokenizer {
    fn push(&mut self, id: u32, out: &mut String) {
        out.push_str(self.0.push(id));
    }

    fn finish(&mut self, out: &mut String) {
        out.push_str(&self.0.finish());
    }
}
