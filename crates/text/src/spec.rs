//! A tokenizer as read from a file, before it is assembled.

use tokenizers::processors::PostProcessorWrapper;

use crate::layout::Layout;
use crate::pipeline::PipelineParts;
use crate::token_bytes::DecoderKind;

/// The most tokens of a vocabulary; the largest in use, Gemma's, has 262,208.
pub(crate) const MAX_TOKENS: usize = 4 << 20;

/// A tokenizer as read from a file: pipeline parts, vocabulary and special tokens.
pub(crate) struct TokenizerSpec {
    pub(crate) parts: PipelineParts,
    pub(crate) decoder_kind: DecoderKind,
    /// The text of each token as the file writes it, `[vocab]`.
    pub(crate) texts: Vec<Option<String>>,
    /// Ids of control tokens.
    pub(crate) special: Vec<u32>,
    /// Tokens that are added before and after a text.
    pub(crate) around: (Vec<u32>, Vec<u32>),
    /// The special tokens around a text and a pair, for encoders; `None` if the file's template is not one of these.
    pub(crate) layout: Option<Layout>,
    /// The post-processor, if it trims offsets.
    pub(crate) trimmer: Option<PostProcessorWrapper>,
    pub(crate) bos: Option<u32>,
    pub(crate) eos: Option<u32>,
    /// End-of-generation tokens that the file names.
    pub(crate) ends: Vec<u32>,
    pub(crate) unknown: Option<u32>,
    /// Warnings about the file, which are logged when it is loaded.
    pub(crate) remarks: Vec<String>,
}
