//! The tokenizer of an encoder, with the lower-casing that sentence-transformers does before it.

use std::sync::Arc;

use ::text::{EncodeOptions, EncoderError, EncoderInput, EncoderTokenizer, TextOrPair};
use model::Heads;
use service::EncoderText;

/// The tokenizer as a model with these heads uses it.
pub(super) fn text(tokenizer: EncoderTokenizer, heads: Option<&Heads>) -> Arc<dyn EncoderText> {
    if heads.is_some_and(|heads| heads.lower_case) {
        return Arc::new(LowerCased(tokenizer));
    }
    Arc::new(tokenizer)
}

/// `do_lower_case` of `sentence_bert_config.json`: texts and prompts are lower-cased whole. Offsets are those of the
/// lower-cased text; models of this kind do not classify tokens.
struct LowerCased(EncoderTokenizer);

impl EncoderText for LowerCased {
    fn encode(
        &self,
        text: &TextOrPair<'_>,
        options: &EncodeOptions<'_>,
    ) -> Result<EncoderInput, EncoderError> {
        let prompt = options.prompt.map(str::to_lowercase);
        let options = EncodeOptions { prompt: prompt.as_deref(), ..*options };
        match text {
            TextOrPair::Text(text) => self.0.encode(&TextOrPair::Text(&text.to_lowercase()), &options),
            TextOrPair::Pair(first, second) => {
                let (first, second) = (first.to_lowercase(), second.to_lowercase());
                self.0.encode(&TextOrPair::Pair(&first, &second), &options)
            }
        }
    }

    fn encode_windows(
        &self,
        text: &str,
        options: &EncodeOptions<'_>,
        most: usize,
    ) -> Result<Vec<EncoderInput>, EncoderError> {
        let prompt = options.prompt.map(str::to_lowercase);
        let options = EncodeOptions { prompt: prompt.as_deref(), ..*options };
        self.0.encode_windows(&text.to_lowercase(), &options, most)
    }

    fn special_tokens(&self) -> usize {
        EncoderText::special_tokens(&self.0)
    }

    fn chunk(
        &self,
        text: &str,
        options: &text::ChunkOptions<'_>,
    ) -> Result<Vec<text::TextChunk>, text::ChunkError> {
        // Counted as written: lower case could change where bytes are.
        EncoderText::chunk(&self.0, text, options)
    }

    fn decode(&self, tokens: &[u32]) -> String {
        EncoderText::decode(&self.0, tokens)
    }

    fn bytes(&self, token: u32) -> Vec<u8> {
        EncoderText::bytes(&self.0, token)
    }
}
