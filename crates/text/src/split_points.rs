//! Split points: where a long word can be split without changing its BPE tokens.
//!
//! Byte-pair models merge neighbours into tokens of their vocabulary. If two characters are adjacent in no token, no
//! merge spans them, and the text on each side is tokenized independently.

use std::collections::HashSet;

use crate::pipeline::SharedModel;

/// The pairs of characters that are adjacent in some token of a vocabulary.
pub(crate) struct SplitPoints {
    /// Adjacent pairs, packed as `left << 32 | right`, ascending.
    pairs: Vec<u64>,
    /// Characters that are tokens by themselves.
    alone: HashSet<char>,
}

fn pair(left: char, right: char) -> u64 {
    u64::from(u32::from(left)) << 32 | u64::from(u32::from(right))
}

impl SplitPoints {
    /// Reads the vocabulary of `model`; `None` if it is not a plain byte-pair model.
    pub(crate) fn new(model: &SharedModel) -> Option<SplitPoints> {
        if !model.joins_pairs() {
            return None;
        }
        let (mut pairs, mut alone) = (Vec::new(), HashSet::new());
        model.each_piece(&mut |piece| {
            let mut before = None;
            for c in piece.chars() {
                pairs.extend(before.map(|before| pair(before, c)));
                before = Some(c);
            }
            if let Some(one) = before.filter(|one| one.len_utf8() == piece.len()) {
                alone.insert(one);
            }
            if pairs.len() > (1 << 20) {
                pairs.sort_unstable();
                pairs.dedup();
            }
        });
        pairs.sort_unstable();
        pairs.dedup();
        pairs.shrink_to_fit();
        Some(SplitPoints { pairs, alone })
    }

    /// The first split point with at least `least` bytes on both sides, as a byte offset; `None` if there is none.
    pub(crate) fn find(&self, word: &str, least: usize) -> Option<usize> {
        let most = word.len().checked_sub(least)?;
        let mut before = None;
        let from = (least.saturating_sub(8)..least).find(|at| word.is_char_boundary(*at)).unwrap_or(0);
        for (at, c) in word.get(from..)?.char_indices() {
            let place = from + at;
            if place > most {
                return None;
            }
            let apart = |left: &char| {
                self.alone.contains(left)
                    && self.alone.contains(&c)
                    && self.pairs.binary_search(&pair(*left, c)).is_err()
            };
            if place >= least && before.as_ref().is_some_and(apart) {
                return Some(place);
            }
            before = Some(c);
        }
        None
    }
}
