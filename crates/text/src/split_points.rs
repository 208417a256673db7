//! Where a long word may be cut without changing its tokens.
//!
//! Byte-pair models join neighbours into tokens of their vocabulary. Where two characters stand side by side in no token at
//! all, no join ever spans them, so what is left and right of that place is tokenized as if it stood alone.

use std::collections::HashSet;

use crate::pipeline::SharedModel;

/// The neighbours within a vocabulary's tokens.
pub(crate) struct SplitPoints {
    /// Ascending.
    pairs: Vec<u64>,
    /// Characters that are tokens by themselves.
    alone: HashSet<char>,
}

fn pair(left: char, right: char) -> u64 {
    u64::from(u32::from(left)) << 32 | u64::from(u32::from(right))
}

impl SplitPoints {
    /// `None` for models that do not join pairs, or whose tokens depend on more than that.
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

    /// The first place from `least` bytes on, with at least as many after it. None if there is none.
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
