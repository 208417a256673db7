//! A model in a packed tokenizer's index: where its tables are, and what else it has.

use serde::{Deserialize, Serialize};

use crate::tables::{MergePlace, TablePlace, Trie, TrieTables};

/// A model in a packed tokenizer's index.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ModelIndex {
    /// The number of tokens, as the library's model counts them.
    pub(crate) size: usize,
    /// The model's own vocabulary.
    pub(crate) pieces: TrieTables,
    pub(crate) kind: ModelIndexKind,
}

/// What a kind of model has besides its vocabulary.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ModelIndexKind {
    /// A word is a token or unknown.
    Words {
        unknown: String,
    },
    WordPiece {
        unknown: String,
        prefix: String,
        max_chars: usize,
    },
    BytePairs {
        merges: MergePlace,
        unknown: Option<String>,
        fuse_unknown: bool,
        byte_fallback: bool,
        ignore_merges: bool,
    },
    Unigram {
        /// The score of each id, `[size]`, as 64-bit floats.
        scores: TablePlace,
        /// The bits of the worst score.
        worst: u64,
        unknown: Option<u32>,
        byte_fallback: bool,
    },
    /// SentencePiece's BPE.
    Spm {
        /// The score of each id as 32-bit floats.
        scores: TablePlace,
        /// The piece of each byte, `[256]`.
        bytes: Vec<Option<u32>>,
        unknown: Option<u32>,
    },
}

/// The ids of the tokens of single bytes, such as `<0x0A>`, `[256]`.
pub(super) fn byte_ids(pieces: &Trie) -> Vec<Option<u32>> {
    (0..=255_u8).map(|byte| pieces.get(&format!("<0x{byte:02X}>"))).collect()
}
