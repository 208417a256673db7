//! What a file says of its vocabulary.

use crate::pipeline::PipelineParts;
use crate::token_bytes::DecoderKind;

/// Tokens that any vocabulary may have; Gemma's, the largest in use, has 262,208.
pub(crate) const MAX_TOKENS: usize = 4 << 20;

/// All that a file says, before it is put together.
pub(crate) struct TokenizerSpec {
    pub(crate) parts: PipelineParts,
    pub(crate) decoder_kind: DecoderKind,
    /// `[ids]`: each token's text as the file writes it.
    pub(crate) texts: Vec<Option<String>>,
    /// Control tokens.
    pub(crate) special: Vec<u32>,
    /// Tokens before and after a text.
    pub(crate) around: (Vec<u32>, Vec<u32>),
    pub(crate) bos: Option<u32>,
    pub(crate) eos: Option<u32>,
    /// Ends that the file names itself.
    pub(crate) ends: Vec<u32>,
    pub(crate) unknown: Option<u32>,
    /// What is to be said of the file when it is loaded.
    pub(crate) remarks: Vec<String>,
}
