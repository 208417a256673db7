//! The cases of an encoder's bench: texts as token ids. Lengths follow from a formula, so that other programs can be measured
//! with the same ones.

use std::fmt;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::commands::bench::subject::SEED;

/// Tokens of a case of texts of one length.
const UNIFORM_TOKENS: usize = 16_384;
/// Texts of the mix, and its shortest and longest.
const MIXED: usize = 256;
const SHORTEST: f64 = 5.0;
const LONGEST: f64 = 512.0;
/// Coprime to [`MIXED`]: the order in which the mix has its lengths.
const STRIDE: usize = 97;
/// Ids of words in most vocabularies.
const WORDS: std::ops::Range<u32> = 1_000..28_000;
/// Longest text that can be asked for.
const MOST_TOKENS: usize = 1 << 20;

/// Texts to encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// Texts of so many tokens.
    Uniform(usize),
    /// Texts of 5 to 512 tokens, log-uniform and shuffled.
    Mix,
    /// One text of so many tokens, of which the latency is told.
    Query(usize),
}

impl Case {
    pub(super) const USUAL: [Case; 4] = [Case::Uniform(128), Case::Uniform(512), Case::Mix, Case::Query(16)];

    pub(super) fn read(text: &str) -> Result<Case, String> {
        let tokens = |number: &str| number.parse().ok().filter(|tokens| (1..=MOST_TOKENS).contains(tokens));
        let found = match text.split_once('-') {
            _ if text == "mix-5-512" => Some(Case::Mix),
            Some(("uniform", number)) => tokens(number).map(Case::Uniform),
            Some(("query", number)) => tokens(number).map(Case::Query),
            _ => None,
        };
        found.ok_or_else(|| {
            format!("{text:?} is no case; known are uniform-N and query-N with 1 to {MOST_TOKENS} tokens, and mix-5-512")
        })
    }

    pub(super) fn is_query(self) -> bool {
        matches!(self, Case::Query(_))
    }

    /// Tokens of the longest text.
    pub(super) fn longest(self) -> usize {
        self.lengths().into_iter().max().unwrap_or(1)
    }

    fn lengths(self) -> Vec<usize> {
        match self {
            Case::Uniform(tokens) => vec![tokens; (UNIFORM_TOKENS / tokens).max(1)],
            Case::Query(tokens) => vec![tokens],
            Case::Mix => (0..MIXED).map(|at| mixed(STRIDE * at % MIXED)).collect(),
        }
    }

    /// The texts, each of its own ids.
    pub(super) fn texts(self, vocab: usize) -> Vec<Vec<u32>> {
        let mut random = ChaCha8Rng::seed_from_u64(SEED);
        let vocab = u32::try_from(vocab).unwrap_or(u32::MAX);
        let words = if vocab > WORDS.end { WORDS } else { 0..vocab.max(1) };
        let text = |tokens| (0..tokens).map(|_| random.random_range(words.clone())).collect();
        self.lengths().into_iter().map(text).collect()
    }
}

/// Tokens of the text of the mix that has so many shorter ones.
fn mixed(rank: usize) -> usize {
    let share = (rank as f64 + 0.5) / MIXED as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 5 and 512")]
    return (SHORTEST * (LONGEST / SHORTEST).powf(share) + 0.5).floor() as usize;
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Case::Uniform(tokens) => write!(f, "uniform-{tokens}"),
            Case::Query(tokens) => write!(f, "query-{tokens}"),
            Case::Mix => f.write_str("mix-5-512"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_other_programs() {
        let lengths = Case::Mix.lengths();
        // What tools/peers/encoder_cases.py says.
        assert_eq!((lengths.len(), lengths.iter().sum::<usize>()), (256, 28_034));
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&5), Some(&507)));
        assert_eq!(lengths[..4], [5, 29, 168, 10]);
        assert_eq!(Case::Uniform(512).lengths(), [512; 32]);
        let texts = Case::Uniform(128).texts(30_522);
        assert!(
            texts.len() == 128 && texts[0] != texts[1] && texts.iter().flatten().all(|id| WORDS.contains(id))
        );
        assert!(Case::Mix.texts(300).iter().flatten().all(|id| *id < 300));
    }

    #[test]
    fn cases_are_read_as_they_are_written() {
        for case in [Case::USUAL.to_vec(), vec![Case::Uniform(5), Case::Query(512)]].concat() {
            assert_eq!(Case::read(&case.to_string()), Ok(case));
        }
        for bad in ["uniform", "uniform-0", "mix", "query-x", "uniform-99999999"] {
            assert!(Case::read(bad).unwrap_err().starts_with(&format!("{bad:?} is no case")));
        }
    }
}
