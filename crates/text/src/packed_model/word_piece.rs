//! WordPiece: the longest piece that a word begins with, again and again.

use tokenizers::Token;

use super::index::ModelIndexKind;
use crate::tables::Trie;

/// WordPiece from a trie: each piece is found in one walk.
pub(crate) struct PackedWordPiece {
    unknown: String,
    prefix: String,
    max_chars: usize,
}

impl PackedWordPiece {
    pub(crate) fn open(index: &ModelIndexKind) -> Option<PackedWordPiece> {
        let ModelIndexKind::WordPiece { unknown, prefix, max_chars } = index else { return None };
        let (unknown, prefix) = (unknown.clone(), prefix.clone());
        Some(PackedWordPiece { unknown, prefix, max_chars: *max_chars })
    }

    /// The prefix of pieces that continue a word.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn tokenize(&self, pieces: &Trie, word: &str) -> tokenizers::Result<Vec<Token>> {
        if word.chars().count() > self.max_chars {
            return self.whole_unknown(pieces, word);
        }
        let mut tokens = Vec::new();
        let mut start = 0;
        while start < word.len() {
            let Some((id, end)) = self.longest(pieces, word, start) else {
                return self.whole_unknown(pieces, word);
            };
            tokens.push(Token::new(id, String::new(), (start, end)));
            start = end;
        }
        Ok(tokens)
    }

    /// The longest piece at `start`, and where it ends.
    fn longest(&self, pieces: &Trie, word: &str, start: usize) -> Option<(u32, usize)> {
        let mut walk = pieces.walk();
        if start > 0 && !self.prefix.bytes().all(|byte| walk.step(byte)) {
            return None;
        }
        let mut found = None;
        for (at, byte) in word.bytes().enumerate().skip(start) {
            if !walk.step(byte) {
                break;
            }
            // A damaged table could have a piece that ends inside a character.
            found = walk.id().map(|id| (id, at + 1)).filter(|(_, end)| word.is_char_boundary(*end)).or(found);
        }
        found
    }

    fn whole_unknown(&self, pieces: &Trie, word: &str) -> tokenizers::Result<Vec<Token>> {
        let id =
            pieces.get(&self.unknown).ok_or("WordPiece error: Missing [UNK] token from the vocabulary")?;
        Ok(vec![Token::new(id, String::new(), (0, word.len()))])
    }
}
