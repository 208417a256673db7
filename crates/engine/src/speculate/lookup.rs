//! Prompt lookup (Saxena, 2023): proposes what followed the last tokens where they occurred before in the same text.

use super::acceptance::AcceptanceEstimate;
use super::proposal::{Proposal, match_class};

/// Least length of a match, in tokens: shorter ones predict little.
const MIN_MATCH: usize = 2;
/// Longest match that is looked for, in tokens: longer ones predict no better.
const MAX_MATCH: usize = 16;
/// Most tokens searched, the latest ones: 128 KiB, some microseconds.
const WINDOW: usize = 32_768;

/// Extends `proposal`, whose tokens are the last of `tokens`, by at most `most` tokens: those after the longest earlier
/// match of the end of `tokens`, the latest of equals. A match that reaches the end goes on with the proposed tokens,
/// as a text that repeats itself does.
pub(super) fn extend(
    proposal: &mut Proposal,
    tokens: &[u32],
    most: usize,
    estimate: &AcceptanceEstimate<'_>,
) {
    let Some((next, length)) = longest_match(tokens) else { return };
    let before = proposal.len();
    for step in 0..most {
        let at = next + step;
        let token = match at.checked_sub(tokens.len()) {
            None => tokens[at],
            Some(own) => proposal.tokens()[before + own],
        };
        let class = match_class(length + step);
        proposal.push(token, class, estimate.probability(class));
    }
}

/// The place after the best match, and the match's length.
fn longest_match(tokens: &[u32]) -> Option<(usize, usize)> {
    let tokens_before = tokens.len().checked_sub(1)?;
    let first = tokens.len().saturating_sub(WINDOW);
    let last = tokens[tokens_before];
    let mut best: Option<(usize, usize)> = None;
    for end in (first..tokens_before).rev() {
        if tokens[end] != last {
            continue;
        }
        let back = tokens[first..end].iter().rev().zip(tokens[..tokens_before].iter().rev());
        let length = 1 + back.take(MAX_MATCH - 1).take_while(|(a, b)| a == b).count();
        if length >= MIN_MATCH && best.is_none_or(|(_, longest)| length > longest) {
            best = Some((end + 1, length));
            if length == MAX_MATCH {
                break;
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::speculate::acceptance::AcceptanceStats;

    fn after(tokens: &[u32], most: usize) -> Vec<u32> {
        let odds = AcceptanceStats::default();
        let mut proposal = Proposal::default();
        extend(&mut proposal, tokens, most, &AcceptanceEstimate { own: &odds, all: &odds });
        proposal.tokens().to_vec()
    }

    #[test]
    fn the_longest_match_wins_and_of_equals_the_latest() {
        assert_eq!(after(&[1, 2, 3, 7, 2, 3, 8, 1, 2, 3], 2), [7, 2], "three tokens beat two");
        assert_eq!(after(&[5, 2, 3, 7, 6, 2, 3, 8, 1, 2, 3], 2), [8, 1], "the later of two");
        assert!(after(&[1, 2, 3, 4, 3], 4).is_empty(), "one token is no match");
        assert!(after(&[], 4).is_empty());
        assert!(after(&[9], 4).is_empty());
    }

    #[test]
    fn a_loop_goes_on_past_the_end() {
        assert_eq!(after(&[1, 2, 3, 1, 2, 3, 1], 7), [2, 3, 1, 2, 3, 1, 2]);
        assert_eq!(after(&[4, 4, 4], 5), [4; 5]);
    }

    #[test]
    fn what_lies_before_the_window_is_not_searched() {
        let mut tokens = vec![1, 2, 3];
        tokens.extend((0..WINDOW as u32).map(|i| 10 + i));
        tokens.extend([1, 2]);
        assert!(after(&tokens, 3).is_empty());
    }

    proptest! {
        /// Against the definition: try every length, longest first, and every place, latest first.
        #[test]
        fn as_a_search_of_everything(tokens in prop::collection::vec(0u32..4, 0..60), most in 0usize..8) {
            let naive = (MIN_MATCH..=MAX_MATCH.min(tokens.len())).rev().find_map(|length| {
                let tail = &tokens[tokens.len() - length..];
                (length..tokens.len()).rev().find(|end| &tokens[end - length..*end] == tail)
            });
            let mut all = tokens.clone();
            if let Some(next) = naive {
                (0..most).for_each(|step| all.push(all[next + step]));
            }
            prop_assert_eq!(after(&tokens, most), &all[tokens.len()..]);
        }
    }
}
