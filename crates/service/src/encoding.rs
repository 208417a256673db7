//! A loaded model's way of encoding texts.

use std::sync::Arc;

use engine::encoder::EncoderHandle;
use inference::EncoderFacts;
use text::{
    ChunkError, ChunkOptions, EncodeOptions, EncoderError, EncoderInput, EncoderTokenizer, TextChunk,
    TextOrPair,
};

use crate::encode::EncoderHeads;

/// A model's way of encoding texts.
#[derive(Clone)]
pub struct Encoding {
    /// The way to the encoder.
    pub engine: EncoderHandle,
    /// The tokenizer.
    pub text: Arc<dyn EncoderText>,
    /// The heads: which vectors and scores the model has.
    pub heads: Arc<EncoderHeads>,
    /// The facts that clients are told.
    pub facts: Arc<EncoderFacts>,
}

/// Texts to the inputs of one encoder. A trait so that the server is tested without a tokenizer's file.
pub trait EncoderText: Send + Sync {
    /// The tokens of a text or of a pair, with special tokens.
    ///
    /// # Errors
    /// As [`EncoderTokenizer::encode`].
    fn encode(
        &self,
        text: &TextOrPair<'_>,
        options: &EncodeOptions<'_>,
    ) -> Result<EncoderInput, EncoderError>;

    /// A text in windows of at most `options.max_tokens` tokens, of which there are at most `most`; nothing is cut.
    ///
    /// # Errors
    /// As [`EncoderTokenizer::encode_windows`].
    fn encode_windows(
        &self,
        text: &str,
        options: &EncodeOptions<'_>,
        most: usize,
    ) -> Result<Vec<EncoderInput>, EncoderError>;

    /// The number of special tokens around a text.
    fn special_tokens(&self) -> usize;

    /// The parts of a text.
    ///
    /// # Errors
    /// As [`EncoderTokenizer::chunk`].
    fn chunk(&self, text: &str, options: &ChunkOptions<'_>) -> Result<Vec<TextChunk>, ChunkError>;

    /// Text of tokens.
    fn decode(&self, tokens: &[u32]) -> String;

    /// The bytes of a token; may be part of a character.
    fn bytes(&self, token: u32) -> Vec<u8>;
}

impl EncoderText for EncoderTokenizer {
    fn encode(
        &self,
        text: &TextOrPair<'_>,
        options: &EncodeOptions<'_>,
    ) -> Result<EncoderInput, EncoderError> {
        EncoderTokenizer::encode(self, text, options)
    }

    fn encode_windows(
        &self,
        text: &str,
        options: &EncodeOptions<'_>,
        most: usize,
    ) -> Result<Vec<EncoderInput>, EncoderError> {
        EncoderTokenizer::encode_windows(self, text, options, most)
    }

    fn special_tokens(&self) -> usize {
        EncoderTokenizer::special_tokens(self, false).unwrap_or_default()
    }

    fn chunk(&self, text: &str, options: &ChunkOptions<'_>) -> Result<Vec<TextChunk>, ChunkError> {
        EncoderTokenizer::chunk(self, text, options)
    }

    fn decode(&self, tokens: &[u32]) -> String {
        self.tokenizer().decode(tokens, true)
    }

    fn bytes(&self, token: u32) -> Vec<u8> {
        self.tokenizer().token_bytes(token).map(<[u8]>::to_vec).unwrap_or_default()
    }
}
