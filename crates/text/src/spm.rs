//! SentencePiece's BPE model: repeatedly merges the two neighbours whose joint piece has the best score (the leftmost
//! of equal ones); remaining text that is not a piece becomes bytes (byte fallback).
//!
//! Merges follow from scores alone, as in SentencePiece (`bpe_model.cc`), so a file needs no list of merges.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use tokenizers::Token;

use crate::tables::{Table, Trie};

/// A SentencePiece BPE vocabulary with scores.
pub(crate) struct Spm {
    /// Pieces that can result from text.
    ids: SpmPieces,
    /// Control tokens, which only the pipeline produces.
    control: HashMap<Box<str>, u32>,
    /// The piece of each byte, `[256]`.
    bytes: Vec<Option<u32>>,
    unknown: Option<u32>,
    size: usize,
}

/// Pieces with their ids and scores.
pub(crate) enum SpmPieces {
    /// From a file; the scores are `[vocab]`.
    Map(HashMap<Box<str>, u32>, Vec<f32>),
    /// From a packed tokenizer; the table has a 32-bit float for each id.
    Packed(Trie, Table),
}

impl SpmPieces {
    fn get(&self, piece: &str) -> Option<u32> {
        match self {
            SpmPieces::Map(ids, _) => ids.get(piece).copied(),
            SpmPieces::Packed(ids, _) => ids.get(piece),
        }
    }

    fn score(&self, id: u32) -> f32 {
        match self {
            SpmPieces::Map(_, scores) => scores[id as usize],
            SpmPieces::Packed(_, scores) => f32::from_bits(scores.number(id as usize).unwrap_or(0)),
        }
    }
}

/// A symbol: bytes `start..start + len` of the text (`len` 0: merged into its left neighbour), and its neighbours.
struct Symbol {
    start: usize,
    len: usize,
    previous: Option<usize>,
    next: Option<usize>,
}

/// A candidate merge: two neighbours whose joint text is a piece.
struct Pair {
    score: f32,
    left: usize,
    right: usize,
    len: usize,
}

impl PartialEq for Pair {
    fn eq(&self, other: &Pair) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Pair) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pair {
    fn cmp(&self, other: &Pair) -> Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left)).then(self.len.cmp(&other.len))
    }
}

/// Merges between two calls of `keep_going`.
const MERGES_PER_CHECK: usize = 4_096;

impl Spm {
    /// A model from pieces, control tokens, byte pieces and the unknown token. `size`: pieces and control tokens.
    pub(crate) fn new(
        ids: SpmPieces,
        control: HashMap<Box<str>, u32>,
        bytes: Vec<Option<u32>>,
        unknown: Option<u32>,
        size: usize,
    ) -> Spm {
        Spm { ids, control, bytes, unknown, size }
    }

    /// The pieces that can result from text; `None` for a packed model.
    pub(crate) fn vocabulary(&self) -> Option<&HashMap<Box<str>, u32>> {
        match &self.ids {
            SpmPieces::Map(ids, _) => Some(ids),
            SpmPieces::Packed(..) => None,
        }
    }

    /// The score of a piece.
    pub(crate) fn score(&self, id: u32) -> f32 {
        self.ids.score(id)
    }

    /// The control tokens.
    pub(crate) fn control(&self) -> &HashMap<Box<str>, u32> {
        &self.control
    }

    /// The piece of each byte, `[256]`, and the unknown token.
    pub(crate) fn fallbacks(&self) -> (&[Option<u32>], Option<u32>) {
        (&self.bytes, self.unknown)
    }

    /// The number of pieces of all kinds.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Calls `visit` with the text of each piece that can result from text.
    pub(crate) fn each_piece(&self, visit: &mut impl FnMut(&str)) {
        match &self.ids {
            SpmPieces::Map(ids, _) => ids.keys().for_each(|piece| visit(piece)),
            SpmPieces::Packed(ids, _) => ids.each(visit),
        }
    }

    /// The id of a piece of any kind.
    pub(crate) fn id(&self, piece: &str) -> Option<u32> {
        self.control.get(piece).copied().or_else(|| self.ids.get(piece))
    }

    /// Tokenizes a text, in O(n log n).
    pub(crate) fn tokenize(&self, text: &str) -> Result<Vec<Token>, String> {
        self.tokenize_while(text, &|| true)
    }

    /// As [`Spm::tokenize`], but fails when `keep_going` returns false, which is called every [`MERGES_PER_CHECK`]
    /// merges.
    pub(crate) fn tokenize_while(
        &self,
        text: &str,
        keep_going: &dyn Fn() -> bool,
    ) -> Result<Vec<Token>, String> {
        let mut symbols: Vec<Symbol> = text
            .char_indices()
            .enumerate()
            .map(|(at, (start, c))| Symbol {
                start,
                len: c.len_utf8(),
                previous: at.checked_sub(1),
                next: Some(at + 1).filter(|_| start + c.len_utf8() < text.len()),
            })
            .collect();
        let mut pairs = BinaryHeap::new();
        for left in 0..symbols.len() {
            self.consider(text, &symbols, Some(left), symbols[left].next, &mut pairs);
        }
        let mut merges_until_check = MERGES_PER_CHECK;
        while let Some(pair) = pairs.pop() {
            merges_until_check -= 1;
            if merges_until_check == 0 {
                merges_until_check = MERGES_PER_CHECK;
                if !keep_going() {
                    return Err("the work was stopped".into());
                }
            }
            let (left, right) = (&symbols[pair.left], &symbols[pair.right]);
            // The candidate is stale: one of the two was merged meanwhile.
            if left.len == 0 || right.len == 0 || left.len + right.len != pair.len {
                continue;
            }
            let next = right.next;
            symbols[pair.left].len = pair.len;
            symbols[pair.left].next = next;
            symbols[pair.right].len = 0;
            if let Some(next) = next {
                symbols[next].previous = Some(pair.left);
            }
            self.consider(text, &symbols, symbols[pair.left].previous, Some(pair.left), &mut pairs);
            self.consider(text, &symbols, Some(pair.left), next, &mut pairs);
        }
        let mut tokens = Vec::new();
        let mut at = (!symbols.is_empty()).then_some(0);
        while let Some(index) = at {
            let symbol = &symbols[index];
            self.emit(text, symbol.start, symbol.len, &mut tokens)?;
            at = symbol.next;
        }
        Ok(tokens)
    }

    fn consider(
        &self,
        text: &str,
        symbols: &[Symbol],
        left: Option<usize>,
        right: Option<usize>,
        pairs: &mut BinaryHeap<Pair>,
    ) {
        let (Some(left), Some(right)) = (left, right) else { return };
        let len = symbols[left].len + symbols[right].len;
        let start = symbols[left].start;
        if let Some(id) = text.get(start..start + len).and_then(|piece| self.ids.get(piece)) {
            pairs.push(Pair { score: self.ids.score(id), left, right, len });
        }
    }

    fn emit(&self, text: &str, start: usize, len: usize, tokens: &mut Vec<Token>) -> Result<(), String> {
        let piece = text.get(start..start + len).unwrap_or_default();
        let place = |from: usize, to: usize| (start + from, start + to);
        if let Some(id) = self.ids.get(piece) {
            tokens.push(Token::new(id, String::new(), place(0, len)));
            return Ok(());
        }
        let bytes: Option<Vec<u32>> = piece.bytes().map(|byte| *self.bytes.get(usize::from(byte))?).collect();
        if let Some(bytes) = bytes {
            let each = bytes.into_iter().enumerate();
            tokens.extend(each.map(|(at, id)| Token::new(id, String::new(), place(at, at + 1))));
            return Ok(());
        }
        let unknown = self.unknown.ok_or_else(|| format!("the vocabulary has no piece for {piece:?}"))?;
        match tokens.last_mut() {
            // Consecutive unknown characters become one unknown token.
            Some(last) if last.id == unknown => last.offsets.1 = start + len,
            _ => tokens.push(Token::new(unknown, String::new(), place(0, len))),
        }
        Ok(())
    }
}
