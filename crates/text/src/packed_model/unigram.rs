//! Unigram: the sequence of pieces with the best sum of scores (Viterbi), as SentencePiece's `EncodeOptimized` finds it.

use tokenizers::Token;

use super::index::{ModelIndexKind, byte_ids};
use crate::tables::{Table, TableBytes, Trie};

/// What an unknown character costs beyond the worst piece, as in SentencePiece and the library.
const UNKNOWN_PENALTY: f64 = 10.0;

/// Unigram from a trie and a table of scores.
pub(crate) struct PackedUnigram {
    scores: Table,
    unknown: Option<u32>,
    /// The score of a character that is no piece.
    unknown_score: f64,
    /// The ids of bytes, `[256]`; `None` without byte fallback.
    bytes: Option<Vec<Option<u32>>>,
}

/// The best way to a place of the text.
#[derive(Clone, Copy)]
struct Best {
    id: Option<u32>,
    score: f64,
    /// Where its last piece begins; `None` for a place that no piece ends at.
    start: Option<usize>,
}

impl PackedUnigram {
    pub(crate) fn open(
        bytes: &TableBytes,
        index: &ModelIndexKind,
        pieces: &Trie,
        size: usize,
        vocab: usize,
    ) -> Option<PackedUnigram> {
        let ModelIndexKind::Unigram { scores, worst, unknown, byte_fallback } = index else { return None };
        Some(PackedUnigram {
            scores: Table::new(bytes, *scores, size.checked_mul(8)?)?,
            unknown: unknown.filter(|id| (*id as usize) < vocab),
            unknown_score: f64::from_bits(*worst) - UNKNOWN_PENALTY,
            bytes: byte_fallback.then(|| byte_ids(pieces)),
        })
    }

    fn score(&self, id: u32) -> f64 {
        let eight = self.scores.bytes().get(id as usize * 8..).and_then(|rest| rest.first_chunk());
        eight.map_or(self.unknown_score, |bytes| f64::from_le_bytes(*bytes))
    }

    pub(crate) fn tokenize(&self, pieces: &Trie, text: &str) -> tokenizers::Result<Vec<Token>> {
        let mut tokens = Vec::new();
        for (start, end) in self.segments(pieces, text)? {
            let piece = text.get(start..end).unwrap_or_default();
            if let Some(id) = pieces.get(piece) {
                tokens.push(Token::new(id, String::new(), (start, end)));
                continue;
            }
            let fallback: Option<Vec<u32>> = self
                .bytes
                .as_ref()
                .and_then(|ids| piece.bytes().map(|byte| *ids.get(usize::from(byte))?).collect());
            match fallback {
                Some(ids) => {
                    tokens.extend(ids.into_iter().map(|id| Token::new(id, String::new(), (start, end))));
                }
                None => tokens.push(Token::new(self.unknown()?, String::new(), (start, end))),
            }
        }
        Ok(tokens)
    }

    fn unknown(&self) -> tokenizers::Result<u32> {
        self.unknown.ok_or_else(|| "Encountered an unknown token but `unk_id` is missing".into())
    }

    /// The pieces of a text in order; neighbours that are unknown are one.
    fn segments(&self, pieces: &Trie, text: &str) -> tokenizers::Result<Vec<(usize, usize)>> {
        let best = self.best_paths(pieces, text)?;
        let mut segments: Vec<(usize, usize)> = Vec::new();
        let (mut end, mut after_unknown) = (text.len(), false);
        while end > 0 {
            let Best { id, start, .. } = best[end];
            let start = start.filter(|start| *start < end).ok_or("the vocabulary's table is broken")?;
            let is_unknown = self.unknown.is_some() && id == self.unknown;
            match segments.last_mut() {
                Some(last) if is_unknown && after_unknown => last.0 = start,
                _ => segments.push((start, end)),
            }
            (end, after_unknown) = (start, is_unknown);
        }
        segments.reverse();
        Ok(segments)
    }

    fn best_paths(&self, pieces: &Trie, text: &str) -> tokenizers::Result<Vec<Best>> {
        let mut best = vec![Best { id: None, score: 0.0, start: None }; text.len() + 1];
        let improve = |best: &mut Best, id: u32, score: f64, start: usize| {
            if best.start.is_none() || score > best.score {
                *best = Best { id: Some(id), score, start: Some(start) };
            }
        };
        for (start, c) in text.char_indices() {
            let until_here = best[start].score;
            let mut walk = pieces.walk();
            let mut has_single = false;
            for (at, byte) in text.bytes().enumerate().skip(start) {
                if !walk.step(byte) {
                    break;
                }
                let Some(id) = walk.id() else { continue };
                improve(&mut best[at + 1], id, self.score(id) + until_here, start);
                has_single |= at + 1 - start == c.len_utf8();
            }
            if !has_single {
                let end = &mut best[start + c.len_utf8()];
                // The library asks for the unknown token only where it would be the best.
                if end.start.is_none() || self.unknown_score + until_here > end.score {
                    let unknown = self.unknown()?;
                    improve(end, unknown, self.unknown_score + until_here, start);
                }
            }
        }
        Ok(best)
    }
}
