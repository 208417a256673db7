//! Byte pairs: neighbours are merged in the order of their ranks, the leftmost of equal ones first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tokenizers::Token;

use super::index::{ModelIndexKind, byte_ids};
use super::word_cache::WordCache;
use crate::tables::{MergeTable, TableBytes, Trie};

/// BPE from a trie and a table of merges.
pub(crate) struct BytePairs {
    merges: MergeTable,
    unknown: Option<u32>,
    fuse_unknown: bool,
    /// The ids of bytes, `[256]`; `None` without byte fallback.
    bytes: Option<Vec<Option<u32>>>,
    ignore_merges: bool,
    cache: WordCache,
}

/// A part of a word: its id, its bytes (0: merged into its left neighbour), and its neighbours.
#[derive(Clone, Copy)]
struct Symbol {
    id: u32,
    len: usize,
    previous: Option<usize>,
    next: Option<usize>,
}

/// A merge to be made: rank, place of the left symbol, joint id; the least first.
type Candidate = Reverse<(u32, usize, u32)>;

impl BytePairs {
    pub(crate) fn open(
        bytes: &TableBytes,
        index: &ModelIndexKind,
        pieces: &Trie,
        vocab: usize,
    ) -> Option<BytePairs> {
        let ModelIndexKind::BytePairs { merges, unknown, fuse_unknown, byte_fallback, ignore_merges } = index
        else {
            return None;
        };
        Some(BytePairs {
            merges: MergeTable::open(bytes, merges, vocab)?,
            unknown: unknown.as_deref().and_then(|unknown| pieces.get(unknown)),
            fuse_unknown: *fuse_unknown,
            bytes: byte_fallback.then(|| byte_ids(pieces)),
            ignore_merges: *ignore_merges,
            cache: WordCache::default(),
        })
    }

    pub(crate) fn tokenize(&self, pieces: &Trie, word: &str) -> Vec<Token> {
        if word.is_empty() {
            return Vec::new();
        }
        if self.ignore_merges
            && let Some(id) = pieces.get(word)
        {
            return vec![Token::new(id, String::new(), (0, word.len()))];
        }
        self.cache.get(word, || self.merged(pieces, word))
    }

    fn merged(&self, pieces: &Trie, word: &str) -> Vec<Token> {
        let mut symbols = self.symbols(pieces, word);
        self.merge(&mut symbols);
        let mut at = 0;
        let whole = symbols.iter().filter(|symbol| symbol.len > 0);
        whole
            .map(|symbol| {
                let start = at;
                at += symbol.len;
                Token::new(symbol.id, String::new(), (start, at))
            })
            .collect()
    }

    /// The characters of a word as symbols; those that are no piece are bytes, or unknown, or left out.
    fn symbols(&self, pieces: &Trie, word: &str) -> Vec<Symbol> {
        let mut symbols: Vec<Symbol> = Vec::with_capacity(word.len());
        let mut add = |id, len| {
            let at = symbols.len();
            if let Some(last) = symbols.last_mut() {
                last.next = Some(at);
            }
            symbols.push(Symbol { id, len, previous: at.checked_sub(1), next: None });
        };
        // Bytes of unknown characters that are not a symbol yet.
        let mut unknown_bytes = 0;
        for (start, c) in word.char_indices() {
            let len = c.len_utf8();
            let text = &word[start..start + len];
            if let Some(id) = pieces.get(text) {
                if let Some(unknown) = self.unknown.filter(|_| unknown_bytes > 0) {
                    add(unknown, std::mem::take(&mut unknown_bytes));
                }
                add(id, len);
                continue;
            }
            let of_byte = |ids: &Vec<Option<u32>>| text.bytes().map(|byte| ids[usize::from(byte)]).collect();
            let fallback: Option<Vec<u32>> = self.bytes.as_ref().and_then(of_byte);
            if let Some(ids) = fallback {
                // As in the library, an unknown character before them comes after them.
                ids.into_iter().for_each(|id| add(id, 1));
            } else if let Some(unknown) = self.unknown {
                if unknown_bytes > 0 && !self.fuse_unknown {
                    add(unknown, std::mem::take(&mut unknown_bytes));
                }
                unknown_bytes += len;
            }
        }
        if let Some(unknown) = self.unknown.filter(|_| unknown_bytes > 0) {
            add(unknown, unknown_bytes);
        }
        symbols
    }

    fn candidate(&self, symbols: &[Symbol], left: Option<usize>) -> Option<Candidate> {
        let left = left?;
        let (first, second) = (symbols[left], symbols[symbols[left].next?]);
        let (rank, id) = self.merges.get(first.id, second.id)?;
        Some(Reverse((rank, left, id)))
    }

    fn merge(&self, symbols: &mut [Symbol]) {
        let mut candidates: BinaryHeap<Candidate> =
            (0..symbols.len()).filter_map(|left| self.candidate(symbols, Some(left))).collect();
        while let Some(Reverse((_, left, id))) = candidates.pop() {
            let Symbol { len, next: Some(right), .. } = symbols[left] else { continue };
            let second = symbols[right];
            // Stale, unless the two still become the same id.
            if len == 0 || self.merges.get(symbols[left].id, second.id).is_none_or(|(_, now)| now != id) {
                continue;
            }
            symbols[left] = Symbol { id, len: len + second.len, next: second.next, ..symbols[left] };
            symbols[right].len = 0;
            if let Some(next) = second.next {
                symbols[next].previous = Some(left);
            }
            candidates.extend(self.candidate(symbols, symbols[left].previous));
            candidates.extend(self.candidate(symbols, Some(left)));
        }
    }
}
