//! Why a text cannot be cut into chunks.

use crate::EncoderError;

/// Why a text could not be cut into chunks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// The size is 0.
    #[error("the size of a chunk is 0 tokens; the least is 1")]
    Size,
    /// More overlap than half a chunk.
    #[error("an overlap of {overlap} tokens is more than half of the size of {size}")]
    Overlap {
        /// Tokens of overlap.
        overlap: usize,
        /// Most tokens of a chunk.
        size: usize,
    },
    /// The text is too long.
    #[error("the text has {bytes} bytes; the limit is {limit}")]
    TooManyBytes {
        /// Bytes of the text.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The text has too many chunks of this size.
    #[error("the text has more than {limit} chunks of {size} tokens")]
    TooManyChunks {
        /// Most tokens of a chunk.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The text could not be tokenized.
    #[error(transparent)]
    Encoder(#[from] EncoderError),
}
