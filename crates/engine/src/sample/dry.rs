//! DRY: a token that would make a verbatim repeat longer is penalised by how long the repeat is already
//! (p-e-w, text-generation-webui, 2024; the same rule as llama.cpp's).

use crate::{Dry, Vocabulary};

/// Where repeats must not be followed across, kept up to date as tokens come.
#[derive(Debug, Default)]
pub(crate) struct SequenceBreaks {
    /// For each token of the sequence: whether an occurrence of a breaker ends inside it.
    ends_here: Vec<bool>,
    /// The last bytes of the text, for breakers that span tokens.
    tail: Vec<u8>,
}

impl SequenceBreaks {
    pub(crate) fn push(&mut self, dry: &Dry, bytes: &[u8]) {
        let before = self.tail.len();
        self.tail.extend_from_slice(bytes);
        let found = dry.sequence_breakers.iter().any(|breaker| {
            let from = (before + 1).saturating_sub(breaker.len());
            contains(&self.tail[from..], breaker.as_bytes())
        });
        self.ends_here.push(found && !bytes.is_empty());
        let longest = dry.sequence_breakers.iter().map(String::len).max().unwrap_or(0);
        let keep_from = self.tail.len().saturating_sub(longest);
        self.tail.drain(..keep_from);
    }

    /// Tokens after the last break, at most `len`.
    fn since_last(&self, len: usize) -> usize {
        self.ends_here.iter().rev().take(len).position(|end| *end).unwrap_or(len)
    }
}

fn contains(text: &[u8], pattern: &[u8]) -> bool {
    text.windows(pattern.len()).any(|window| window == pattern)
}

/// Calls `punish(token, penalty)` for each token that would continue a repeat.
///
/// `suffixes` is scratch: after the call `suffixes[i]` is how many tokens before and including the i-th last one equal
/// the end of the text (the Z function of the reversed text), which is linear in its length.
pub(crate) fn penalties(
    dry: &Dry,
    tokens: &[u32],
    breaks: &SequenceBreaks,
    suffixes: &mut Vec<u32>,
    mut punish: impl FnMut(u32, f32),
) {
    let window = usize::try_from(dry.last_n).map_or(tokens.len(), |n| n.min(tokens.len()));
    if dry.multiplier == 0.0 || window <= dry.allowed_length {
        return;
    }
    let tokens = &tokens[tokens.len() - window..];
    let limit = breaks.since_last(window);
    if limit < dry.allowed_length {
        return;
    }
    z_of_reversed(tokens, suffixes);
    // An exponent past this overflows f32.
    let most = if dry.base > 1.0 { (f32::MAX.ln() / dry.base.ln()) as usize } else { usize::MAX };
    for back in 1..window {
        let length = (suffixes[back] as usize).min(limit);
        if length >= dry.allowed_length && length > 0 {
            let grown = (length - dry.allowed_length).min(most);
            // The token that followed the earlier occurrence.
            punish(tokens[window - back], dry.multiplier * dry.base.powf(grown as f32));
        }
    }
}

fn z_of_reversed(tokens: &[u32], z: &mut Vec<u32>) {
    let n = tokens.len();
    let at = |i: usize| tokens[n - 1 - i];
    z.clear();
    z.resize(n, 0);
    let (mut left, mut right) = (0, 0);
    for i in 1..n {
        let mut length = if i < right { (z[i - left] as usize).min(right - i) } else { 0 };
        while i + length < n && at(length) == at(i + length) {
            length += 1;
        }
        z[i] = length as u32;
        if i + length > right {
            (left, right) = (i, i + length);
        }
    }
}

/// Whether the token itself holds a breaker; such tokens are never punished.
pub(crate) fn holds_breaker(dry: &Dry, vocabulary: &dyn Vocabulary, token: u32) -> bool {
    let bytes = vocabulary.bytes(token);
    dry.sequence_breakers.iter().any(|breaker| contains(&bytes, breaker.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn dry(allowed_length: usize) -> Dry {
        Dry { multiplier: 1.0, base: 2.0, allowed_length, ..Dry::default() }
    }

    fn found(dry: &Dry, tokens: &[u32], breaks: &SequenceBreaks) -> BTreeMap<u32, f32> {
        let mut map = BTreeMap::new();
        penalties(dry, tokens, breaks, &mut Vec::new(), |token, penalty| {
            let most = map.entry(token).or_insert(0.0f32);
            *most = most.max(penalty);
        });
        map
    }

    fn no_breaks(n: usize) -> SequenceBreaks {
        SequenceBreaks { ends_here: vec![false; n], tail: Vec::new() }
    }

    #[test]
    fn a_repeat_of_three_is_punished_twice_as_hard_as_one_of_two() {
        // "1 2 3 9 … 1 2 3": 9 would make the repeat of three longer.
        let tokens = [1, 2, 3, 9, 5, 1, 2, 3];
        assert_eq!(found(&dry(2), &tokens, &no_breaks(8)), BTreeMap::from([(9, 2.0)]));
        assert_eq!(found(&dry(4), &tokens, &no_breaks(8)), BTreeMap::new());
    }

    #[test]
    fn a_breaker_stops_the_repeat() {
        let dry = dry(2);
        let mut breaks = SequenceBreaks::default();
        for text in ["a", "b", "c", "x", "y", "a", "b:", "c"] {
            breaks.push(&dry, text.as_bytes());
        }
        let tokens = [1, 2, 3, 9, 5, 1, 2, 3];
        assert_eq!(found(&dry, &tokens, &breaks), BTreeMap::new());
    }

    #[test]
    fn a_breaker_may_span_tokens() {
        let dry = Dry { sequence_breakers: vec!["END".into()], ..dry(2) };
        let mut breaks = SequenceBreaks::default();
        for text in ["xE", "N", "D", "y"] {
            breaks.push(&dry, text.as_bytes());
        }
        assert_eq!(breaks.ends_here, [false, false, true, false]);
        assert_eq!(breaks.since_last(4), 1);
    }

    proptest! {
        #[test]
        fn equals_the_naive_search(tokens in prop::collection::vec(0u32..3, 0..40), allowed in 1usize..4) {
            let dry = dry(allowed);
            let mut naive = BTreeMap::new();
            for next in 1..tokens.len() {
                let length = (0..next).take_while(|k| tokens[next - 1 - k] == tokens[tokens.len() - 1 - k]).count();
                if length >= allowed && tokens.len() > allowed {
                    let penalty = 2f32.powf((length - allowed) as f32);
                    let most = naive.entry(tokens[next]).or_insert(0.0f32);
                    *most = most.max(penalty);
                }
            }
            prop_assert_eq!(found(&dry, &tokens, &no_breaks(tokens.len())), naive);
        }
    }
}
