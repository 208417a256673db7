//! What is asked: conversations of one turn or more, made or read.

use std::fs::File;
use std::io::{BufReader, Read};
use std::ops::Range;
use std::path::Path;

use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

use crate::Failure;

use super::words::Words;

/// Requests that follow each other, each after the answer to the one before; most have one turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Conversation {
    /// Index of the model that is asked.
    pub(super) model: usize,
    /// The system prompt.
    pub(super) system: Option<String>,
    /// Tokens of the system prompt.
    pub(super) system_tokens: usize,
    pub(super) turns: Vec<Turn>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Turn {
    pub(super) prompt: Prompt,
    /// Tokens of the prompt alone.
    pub(super) input_tokens: usize,
    /// Most tokens of the answer.
    pub(super) output_tokens: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Prompt {
    Text(String),
    Tokens(Vec<u32>),
}

/// What made-up prompts are made of.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// Words of one token each.
    Words(Words),
    /// Token ids from this range.
    Ids(Range<u32>),
}

impl Source {
    fn prompt(&self, count: usize, rng: &mut ChaCha8Rng) -> Prompt {
        match self {
            Source::Words(words) => Prompt::Text(words.text(count, rng)),
            Source::Ids(range) => {
                Prompt::Tokens((0..count).map(|_| rng.random_range(range.clone())).collect())
            }
        }
    }

    /// `prefix` and `count` tokens after it.
    fn after(&self, prefix: &Prompt, count: usize, rng: &mut ChaCha8Rng) -> Prompt {
        match (self, prefix) {
            (Source::Words(words), Prompt::Text(text)) => {
                Prompt::Text(format!("{text}{}", words.more(count, rng)))
            }
            (_, Prompt::Tokens(ids)) => match self.prompt(count, rng) {
                Prompt::Tokens(more) => Prompt::Tokens(ids.iter().copied().chain(more).collect()),
                text @ Prompt::Text(_) => text,
            },
            (Source::Ids(_), Prompt::Text(_)) => self.prompt(count, rng),
        }
    }
}

/// How long prompts and answers are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    pub(super) input: usize,
    pub(super) output: usize,
    /// Lengths are drawn evenly from (1 − ratio) to (1 + ratio) times these.
    pub(super) ratio: f64,
}

impl Lengths {
    fn draw(self, rng: &mut ChaCha8Rng) -> (usize, usize) {
        (spread(self.input, self.ratio, rng), spread(self.output, self.ratio, rng))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "lengths of prompts, checked")]
fn spread(length: usize, ratio: f64, rng: &mut ChaCha8Rng) -> usize {
    let low = (length as f64 * (1.0 - ratio)).floor() as usize;
    let high = (length as f64 * (1.0 + ratio)).ceil() as usize;
    rng.random_range(low.max(1)..=high.max(1))
}

/// A made-up set of conversations. The same seed gives the same set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    pub(super) count: usize,
    /// Requests of a conversation.
    pub(super) turns: usize,
    pub(super) lengths: Lengths,
    /// Tokens that conversations share at their beginning; 0 for none.
    pub(super) prefix: usize,
    /// How many such beginnings there are.
    pub(super) prefixes: usize,
    /// Whether the prefix is a system prompt, or the beginning of the prompt.
    pub(super) prefix_is_system: bool,
}

impl Made {
    pub(super) fn make(&self, source: &Source, rng: &mut ChaCha8Rng) -> Vec<Conversation> {
        let prefixes: Vec<Prompt> = match self.prefix {
            0 => Vec::new(),
            tokens => (0..self.prefixes.max(1)).map(|_| source.prompt(tokens, rng)).collect(),
        };
        let mut all: Vec<Conversation> = (0..self.count)
            .map(|index| {
                let prefix = (!prefixes.is_empty()).then(|| &prefixes[index % prefixes.len()]);
                self.conversation(source, prefix, rng)
            })
            .collect();
        all.shuffle(rng);
        all
    }

    fn conversation(&self, source: &Source, prefix: Option<&Prompt>, rng: &mut ChaCha8Rng) -> Conversation {
        let (system, inline) = match prefix {
            Some(Prompt::Text(text)) if self.prefix_is_system => (Some(text.clone()), None),
            other => (None, other),
        };
        let turns = (0..self.turns).map(|turn| {
            let (input, output_tokens) = self.lengths.draw(rng);
            let (prompt, input_tokens) = match inline {
                Some(prefix) if turn == 0 => (source.after(prefix, input, rng), self.prefix + input),
                _ => (source.prompt(input, rng), input),
            };
            Turn { prompt, input_tokens, output_tokens }
        });
        let turns = turns.collect();
        let system_tokens = if system.is_some() { self.prefix } else { 0 };
        Conversation { model: 0, system, system_tokens, turns }
    }
}

/// Bytes of a ShareGPT-style file; the usual one has 0.7 GB.
const MAX_FILE_BYTES: u64 = 4 << 30;

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    conversations: Vec<Said>,
}

#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    value: String,
}

/// The first question and its answer of each conversation in a ShareGPT-style file (`[{"conversations": [{"from": …,
/// "value": …}, …]}, …]`), shuffled.
///
/// # Errors
/// A file that cannot be read, is no such JSON, or has no conversation of two turns.
pub(super) fn sharegpt(path: &Path, rng: &mut ChaCha8Rng) -> Result<Vec<(String, String)>, Failure> {
    let at = path.display();
    let file = File::open(path).map_err(|e| Failure::new(format!("cannot read --dataset-path {at}: {e}")))?;
    let reader = BufReader::new(file.take(MAX_FILE_BYTES));
    let entries: Vec<Entry> = serde_json::from_reader(reader)
        .map_err(|e| Failure::new(format!("--dataset-path {at} is no ShareGPT-style JSON: {e}")))?;
    let pairs = entries.into_iter().filter_map(|entry| {
        let mut said = entry.conversations.into_iter().map(|said| said.value);
        Some((said.next()?, said.next()?))
    });
    let mut pairs: Vec<(String, String)> = pairs.collect();
    if pairs.is_empty() {
        return Err(Failure::new(format!("--dataset-path {at} has no conversation of two turns")));
    }
    pairs.shuffle(rng);
    Ok(pairs)
}

/// vLLM's rule for a pair of ShareGPT that is worth asking: not tiny, a prompt of at most 1,024 tokens, at most 2,048
/// with the answer.
pub(super) fn is_asked(prompt_tokens: usize, output_tokens: usize, output_is_given: bool) -> bool {
    (4..=1024).contains(&prompt_tokens)
        && (output_is_given || output_tokens >= 4)
        && prompt_tokens + output_tokens <= 2048
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    fn rng() -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(3)
    }

    fn made() -> Made {
        Made {
            count: 12,
            turns: 1,
            lengths: Lengths { input: 20, output: 8, ratio: 0.0 },
            prefix: 0,
            prefixes: 1,
            prefix_is_system: false,
        }
    }

    fn words(prompt: &Prompt) -> Vec<&str> {
        match prompt {
            Prompt::Text(text) => text.split(' ').collect(),
            Prompt::Tokens(_) => panic!("text was asked for"),
        }
    }

    #[test]
    fn exact_lengths() {
        for conversation in made().make(&Source::Words(Words::all()), &mut rng()) {
            assert_eq!(words(&conversation.turns[0].prompt).len(), 20);
            assert_eq!((conversation.turns[0].input_tokens, conversation.turns[0].output_tokens), (20, 8));
        }
        for conversation in made().make(&Source::Ids(5..9), &mut rng()) {
            let Prompt::Tokens(ids) = &conversation.turns[0].prompt else { panic!("ids were asked for") };
            assert!(ids.len() == 20 && ids.iter().all(|id| (5..9).contains(id)));
        }
    }

    #[test]
    fn lengths_spread() {
        let made = Made { count: 2000, lengths: Lengths { input: 20, output: 8, ratio: 0.5 }, ..made() };
        let all = made.make(&Source::Ids(0..10), &mut rng());
        let inputs: Vec<usize> = all.iter().map(|c| c.turns[0].input_tokens).collect();
        assert_eq!((inputs.iter().min(), inputs.iter().max()), (Some(&10), Some(&30)));
        let mean = inputs.iter().sum::<usize>() as f64 / inputs.len() as f64;
        // The uniform distribution over 10..=30 has a deviation of 6.06: six of the mean's are 0.81.
        assert!((mean - 20.0).abs() < 0.81, "{mean}");
    }

    #[test]
    fn prefixes_are_shared() {
        let made = Made { prefix: 16, prefixes: 3, ..made() };
        let all = made.make(&Source::Words(Words::all()), &mut rng());
        let mut beginnings: Vec<Vec<&str>> =
            all.iter().map(|c| words(&c.turns[0].prompt)[..16].to_vec()).collect();
        assert!(all.iter().all(|c| c.turns[0].input_tokens == 36 && words(&c.turns[0].prompt).len() == 36));
        beginnings.sort_unstable();
        let of_first = beginnings.iter().filter(|b| **b == beginnings[0]).count();
        beginnings.dedup();
        assert_eq!((beginnings.len(), of_first), (3, 4));
    }

    #[test]
    fn turns_share_a_system_prompt() {
        let made = Made { turns: 8, prefix: 100, prefix_is_system: true, ..made() };
        let all = made.make(&Source::Words(Words::all()), &mut rng());
        assert!(
            all.iter().all(|c| c.turns.len() == 8 && c.system == all[0].system && c.system_tokens == 100)
        );
        assert_ne!(all[0].turns[0], all[0].turns[1]);
        assert_ne!(all[0].turns, all[1].turns);
    }

    #[test]
    fn a_seed_repeats() {
        let source = Source::Words(Words::all());
        assert_eq!(made().make(&source, &mut rng()), made().make(&source, &mut rng()));
        let other = made().make(&source, &mut ChaCha8Rng::seed_from_u64(4));
        assert_ne!(made().make(&source, &mut rng()), other);
    }

    #[test]
    fn sharegpt_files() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = r#"[{"id": "a", "conversations": [{"from": "human", "value": "one"}, {"from": "gpt", "value": "two"}, {"from": "human", "value": "three"}]},
            {"conversations": [{"from": "human", "value": "alone"}]}, {"id": "c"}]"#;
        std::fs::write(file.path(), text).unwrap();
        assert_eq!(sharegpt(file.path(), &mut rng()).unwrap(), [("one".to_owned(), "two".to_owned())]);
        for bad in ["", "{}", "[]", "[1]", r#"[{"conversations": 4}]"#] {
            std::fs::write(file.path(), bad).unwrap();
            assert_eq!(sharegpt(file.path(), &mut rng()).unwrap_err().code, 1, "{bad}");
        }
        assert!(is_asked(4, 4, false) && is_asked(4, 1, true) && is_asked(1024, 1024, false));
        assert!(!is_asked(3, 50, false) && !is_asked(4, 3, false) && !is_asked(1025, 4, true));
        assert!(!is_asked(1000, 1049, true));
    }
}
