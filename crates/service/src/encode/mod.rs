//! Operations of encoders: embeddings, reranking, classification, entities and scores.
//!
//! A request's way: its texts are read off the async threads (`reader`) → a job of the encoder (`call`) → the numbers
//! of each text → the operation's own arithmetic (`numbers`). A dropped future cancels the job.
//!
//! Deliberately absent: pooling and heads, which the model computes; dialects of APIs.

mod call;
mod classify;
mod embed;
mod entities;
mod heads;
mod numbers;
mod reader;
mod rerank;
mod score;
mod similarity;
mod tokenize;

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::encoder::EncoderHandle;
use inference::{EncoderFacts, Operation, Output, RequestContext};
use text::{
    ChunkError, ChunkOptions, EncodeOptions, EncoderError, EncoderInput, EncoderTokenizer, TextChunk,
    TextOrPair,
};
use wire::Fault;

use crate::core::Core;
use crate::preparation::Admitted;
use crate::registry::Lease;
use call::Call;
pub(crate) use classify::check as check_classify;
pub use heads::{
    Activation, ClassifierHead, DenseHead, EncoderHeads, EncoderPrompts, ShortVectors, TokenVectors,
};
pub(crate) use reader::empty;
pub(crate) use rerank::check as check_rerank;
pub(crate) use score::check as check_score;
pub(crate) use tokenize::tokenize;

/// A model's way of encoding texts.
#[derive(Clone)]
pub struct Encoding {
    /// The way to the encoder.
    pub engine: EncoderHandle,
    /// Its tokens.
    pub text: Arc<dyn EncoderText>,
    /// What it computes.
    pub heads: Arc<EncoderHeads>,
    /// What is told of it.
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

/// Answers a request for an operation of encoders.
///
/// # Errors
/// An operation that the model does not support, texts that it cannot take, a full queue, a time limit.
pub(crate) async fn answer(
    core: &Core,
    model: Lease,
    operation: Operation,
    context: Arc<RequestContext>,
    time_limit: Option<Duration>,
    admitted: Admitted,
) -> Result<Output, Fault> {
    let Some(encoding) = model.encoding().cloned() else {
        return Err(model.unable(operation.name()));
    };
    let deadline = time_limit.and_then(|limit| Instant::now().checked_add(limit));
    let call = Call { core, model: Arc::new(model), encoding, context, deadline };
    match operation {
        Operation::Embed(embed) => embed::answer(&call, embed, admitted).await,
        Operation::Rerank(rerank) => rerank::answer(&call, rerank, admitted).await,
        Operation::Classify(classify) => classify::answer(&call, classify, admitted).await,
        Operation::ClassifyTokens(classify) => entities::answer(&call, classify, admitted).await,
        Operation::Score(score) => score::answer(&call, score, admitted).await,
        other @ (Operation::Generate(_) | Operation::Tokenize(_)) => Err(call.model.unable(other.name())),
    }
}

#[cfg(test)]
mod tests;
