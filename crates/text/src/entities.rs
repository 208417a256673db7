//! Entities of token classification: labels of tokens joined to labelled parts of the text.
//!
//! As in transformers' `TokenClassificationPipeline`: a word's label comes from its tokens, then neighbouring words of
//! one label are an entity, by BIO prefixes. Beyond it, the prefixes of BIOES and BILOU are understood (`E-`, `L-`, `S-`
//! and `U-`), which transformers takes for parts of the label.

use std::ops::Range;

/// How the labels of tokens become entities (transformers' `aggregation_strategy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntityStrategy {
    /// Each token is an entity.
    None,
    /// Neighbouring tokens of one label are an entity.
    #[default]
    Simple,
    /// As `Simple`; a word has the label of its first token.
    First,
    /// As `Simple`; a word has the label of its most certain token.
    Max,
    /// As `Simple`; a word has the best label of its tokens' mean probabilities.
    Average,
}

/// The classified tokens of a text. All lists have the same length.
#[derive(Clone, Copy, Debug)]
pub struct ClassifiedTokens<'a> {
    /// The text.
    pub text: &'a str,
    /// Probabilities of the labels, `[tokens, labels]`.
    pub scores: &'a [f32],
    /// The byte range of each token in the text.
    pub offsets: &'a [(u32, u32)],
    /// Whether each token is a special token, which belongs to no entity.
    pub special: &'a [bool],
    /// Whether each token goes on with the word of the token before it.
    pub subword: &'a [bool],
}

/// A labelled part of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct TextEntity {
    /// The label, without its prefix where tokens are joined.
    pub label: String,
    /// The mean probability of the label.
    pub score: f32,
    /// The index of the first token; special tokens count.
    pub token: usize,
    /// The part of the text in bytes.
    pub bytes: Range<usize>,
    /// The part of the text in characters.
    pub chars: Range<usize>,
}

/// A token or word with its best label.
struct Unit {
    label: usize,
    score: f32,
    token: usize,
    bytes: Range<usize>,
}

/// Joins classified tokens to entities; those whose label is in `ignored` are left out.
///
/// Missing values at the end of a list count as 0 and no, so that a shorter list is not an error.
pub fn entities(
    tokens: &ClassifiedTokens<'_>,
    labels: &[String],
    strategy: EntityStrategy,
    ignored: &[String],
) -> Vec<TextEntity> {
    if labels.is_empty() {
        return Vec::new();
    }
    let scored: Vec<(usize, &[f32])> = tokens.scores.chunks_exact(labels.len()).enumerate().collect();
    let plain = scored.into_iter().filter(|(at, _)| !tokens.special.get(*at).copied().unwrap_or(false));
    let units = match strategy {
        EntityStrategy::None | EntityStrategy::Simple => {
            plain.map(|(at, scores)| tokens.unit(at, at, best(scores))).collect()
        }
        EntityStrategy::First | EntityStrategy::Max | EntityStrategy::Average => {
            words(tokens, plain, strategy)
        }
    };
    let is_ignored = |label: &str| ignored.iter().any(|ignored| ignored == label);
    let mut chars = CharIndex { text: tokens.text, byte: 0, chars: 0 };
    let joined = match strategy {
        EntityStrategy::None => {
            units.iter().map(|unit| (labels[unit.label].as_str(), unit.score, unit)).map(own).collect()
        }
        _ => join(&units, labels),
    };
    let kept = joined.into_iter().filter(|(label, ..)| !is_ignored(label));
    kept.map(|(label, score, token, bytes)| {
        let start = chars.at(bytes.start);
        let end = start + tokens.text.get(bytes.clone()).map_or(0, |part| part.chars().count());
        TextEntity { label: label.to_owned(), score, token, bytes, chars: start..end }
    })
    .collect()
}

type Joined<'a> = (&'a str, f32, usize, Range<usize>);

fn own<'a>((label, score, unit): (&'a str, f32, &Unit)) -> Joined<'a> {
    (label, score, unit.token, unit.bytes.clone())
}

impl ClassifiedTokens<'_> {
    fn unit(&self, first: usize, last: usize, (label, score): (usize, f32)) -> Unit {
        let place = |at: usize| self.offsets.get(at).copied().unwrap_or_default();
        let (start, end) = (place(first).0 as usize, place(last).1 as usize);
        Unit { label, score, token: first, bytes: start..end.max(start) }
    }
}

/// The index and value of the largest number, the first of equal ones.
fn best(scores: &[f32]) -> (usize, f32) {
    let first = (0, scores.first().copied().unwrap_or(0.0));
    scores.iter().copied().enumerate().fold(first, |best, one| if one.1 > best.1 { one } else { best })
}

/// The words of tokens, each with its label.
fn words<'a>(
    tokens: &ClassifiedTokens<'_>,
    plain: impl Iterator<Item = (usize, &'a [f32])>,
    strategy: EntityStrategy,
) -> Vec<Unit> {
    let mut words: Vec<Vec<(usize, &[f32])>> = Vec::new();
    for (at, scores) in plain {
        match words.last_mut() {
            Some(word) if tokens.subword.get(at).copied().unwrap_or(false) => word.push((at, scores)),
            _ => words.push(vec![(at, scores)]),
        }
    }
    let unit = |word: &Vec<(usize, &[f32])>| {
        let chosen = match strategy {
            EntityStrategy::Max => {
                let bests = word.iter().map(|(_, scores)| best(scores));
                bests.reduce(|most, one| if one.1 > most.1 { one } else { most }).unwrap_or((0, 0.0))
            }
            EntityStrategy::Average => best(&mean(word)),
            EntityStrategy::None | EntityStrategy::Simple | EntityStrategy::First => best(word[0].1),
        };
        tokens.unit(word[0].0, word[word.len() - 1].0, chosen)
    };
    words.iter().map(unit).collect()
}

/// The mean of the tokens' probabilities, `[labels]`.
fn mean(word: &[(usize, &[f32])]) -> Vec<f32> {
    let mut sums = vec![0.0; word[0].1.len()];
    for (_, scores) in word {
        sums.iter_mut().zip(*scores).for_each(|(sum, score)| *sum += score);
    }
    sums.iter().map(|sum| sum / word.len() as f32).collect()
}

/// The place of a token in its entity, by the prefix of its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Begins,
    Inside,
    Ends,
    Alone,
}

/// The prefix of a label, and the label without it; one without a prefix goes on.
fn place(label: &str) -> (Place, &str) {
    let split = label.split_once('-').filter(|(prefix, _)| prefix.len() == 1);
    match split {
        Some(("B", tag)) => (Place::Begins, tag),
        Some(("I", tag)) => (Place::Inside, tag),
        Some(("E" | "L", tag)) => (Place::Ends, tag),
        Some(("S" | "U", tag)) => (Place::Alone, tag),
        _ => (Place::Inside, label),
    }
}

/// Joins neighbours of one label.
fn join<'a>(units: &[Unit], labels: &'a [String]) -> Vec<Joined<'a>> {
    let mut groups: Vec<Vec<&Unit>> = Vec::new();
    for unit in units {
        let (here, tag) = place(&labels[unit.label]);
        let goes_on = groups.last().and_then(|group| group.last()).is_some_and(|last| {
            let (before, last_tag) = place(&labels[last.label]);
            tag == last_tag
                && !matches!(here, Place::Begins | Place::Alone)
                && !matches!(before, Place::Ends | Place::Alone)
        });
        match groups.last_mut() {
            Some(group) if goes_on => group.push(unit),
            _ => groups.push(vec![unit]),
        }
    }
    let joined = |group: &Vec<&Unit>| {
        let score = group.iter().map(|unit| unit.score).sum::<f32>() / group.len() as f32;
        let bytes = group[0].bytes.start..group[group.len() - 1].bytes.end.max(group[0].bytes.start);
        // transformers names a group by what follows the first hyphen, whatever is before it.
        let label = labels[group[0].label].as_str();
        let label = label.split_once('-').map_or(label, |(_, label)| label);
        (label, score, group[0].token, bytes)
    };
    groups.iter().map(joined).collect()
}

/// Characters before a byte, counted onwards from the last one asked.
struct CharIndex<'a> {
    text: &'a str,
    byte: usize,
    chars: usize,
}

impl CharIndex<'_> {
    fn at(&mut self, byte: usize) -> usize {
        if byte < self.byte {
            (self.byte, self.chars) = (0, 0);
        }
        let between = self.text.get(self.byte..byte).map_or(0, |part| part.chars().count());
        (self.byte, self.chars) = (byte, self.chars + between);
        self.chars
    }
}
