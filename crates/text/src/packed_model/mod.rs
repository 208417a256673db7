//! Models that tokenize from the tables of a packed tokenizer: the library's WordPiece, BPE and Unigram, token for token,
//! without its maps.
//!
//! The library's models are what they are compared with (`tests/`), and what is packed. BPE with dropout, a prefix or a
//! suffix is not packed: no model that is served has it.

mod byte_pairs;
mod index;
mod unigram;
mod word_cache;
mod word_piece;

use tokenizers::Token;

use crate::tables::{TableBytes, Trie};

use byte_pairs::BytePairs;
pub(crate) use index::{ModelIndex, ModelIndexKind};
use unigram::PackedUnigram;
use word_piece::PackedWordPiece;

/// A model of the library's kinds, from tables.
pub(crate) struct PackedModel {
    size: usize,
    pieces: Trie,
    kind: Kind,
}

#[allow(clippy::large_enum_variant, reason = "one lives behind an Arc for each tokenizer")]
enum Kind {
    Words(String),
    WordPiece(PackedWordPiece),
    BytePairs(BytePairs),
    Unigram(PackedUnigram),
}

impl PackedModel {
    /// The model of an index; `None` if its tables are not in the file, or if it is SentencePiece's BPE.
    pub(crate) fn open(bytes: &TableBytes, index: &ModelIndex, vocab: usize) -> Option<PackedModel> {
        let pieces = Trie::open(bytes, &index.pieces, vocab)?;
        let kind = match &index.kind {
            ModelIndexKind::Words { unknown } => Kind::Words(unknown.clone()),
            ModelIndexKind::WordPiece { .. } => Kind::WordPiece(PackedWordPiece::open(&index.kind)?),
            ModelIndexKind::BytePairs { .. } => {
                Kind::BytePairs(BytePairs::open(bytes, &index.kind, &pieces, vocab)?)
            }
            ModelIndexKind::Unigram { .. } => {
                Kind::Unigram(PackedUnigram::open(bytes, &index.kind, &pieces, index.size, vocab)?)
            }
            ModelIndexKind::Spm { .. } => return None,
        };
        Some(PackedModel { size: index.size, pieces, kind })
    }

    /// The number of tokens, as the library's model counts them.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The id of a piece.
    pub(crate) fn id(&self, piece: &str) -> Option<u32> {
        self.pieces.get(piece)
    }

    /// Calls `visit` with the text of each piece.
    pub(crate) fn each_piece(&self, visit: &mut impl FnMut(&str)) {
        self.pieces.each(visit);
    }

    /// Whether it is a byte-pair model.
    pub(crate) fn joins_pairs(&self) -> bool {
        matches!(self.kind, Kind::BytePairs(_))
    }

    /// The prefix of pieces that continue a word, if the model has one.
    pub(crate) fn subword_prefix(&self) -> Option<&str> {
        match &self.kind {
            Kind::WordPiece(model) => Some(model.prefix()),
            Kind::Words(_) | Kind::BytePairs(_) | Kind::Unigram(_) => None,
        }
    }

    /// Tokenizes a word. Tokens have ids and offsets, and no text.
    pub(crate) fn tokenize(&self, word: &str) -> tokenizers::Result<Vec<Token>> {
        match &self.kind {
            Kind::Words(unknown) => {
                let id = self.pieces.get(word).or_else(|| self.pieces.get(unknown));
                let id = id.ok_or("WordLevel error: Missing [UNK] token from the vocabulary")?;
                Ok(vec![Token::new(id, String::new(), (0, word.len()))])
            }
            Kind::WordPiece(model) => model.tokenize(&self.pieces, word),
            Kind::BytePairs(model) => Ok(model.tokenize(&self.pieces, word)),
            Kind::Unigram(model) => model.tokenize(&self.pieces, word),
        }
    }
}
