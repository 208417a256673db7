//! Deterministic text: the words of an answer, and the tokens of a prompt.

/// Words of answers. A token of an answer is one of them with the space before it.
const WORDS: [&str; 64] = [
    "mill", "stone", "water", "wheel", "grain", "flour", "bread", "river", "stream", "field", "wheat",
    "barley", "oats", "sack", "cart", "horse", "road", "bridge", "town", "market", "price", "coin", "baker",
    "oven", "fire", "wood", "smoke", "roof", "door", "window", "light", "shade", "morning", "evening",
    "summer", "winter", "rain", "wind", "cloud", "stone", "gear", "shaft", "belt", "rope", "hook", "beam",
    "floor", "stair", "lamp", "clock", "bell", "song", "story", "letter", "paper", "ink", "hand", "friend",
    "child", "garden", "apple", "honey", "salt", "yeast",
];

/// A well mixed number from another (the finalizer of SplitMix64; Steele, Lea and Flood, 2014).
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The hash of a text (FNV-1a, 64 bits), continued from `start`.
pub(crate) fn hash(start: u64, text: &str) -> u64 {
    text.bytes().fold(start ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The token at a place of an answer whose words are drawn from `start`.
fn word(start: u64, index: u64) -> String {
    let word = WORDS[(mix(start.wrapping_add(index)) % WORDS.len() as u64) as usize];
    if index == 0 { word.to_owned() } else { format!(" {word}") }
}

/// The first `count` tokens of the answer to a prompt. They are the same in every dialect.
///
/// `prompt` is the concatenated text of the request's messages, system prompt first.
pub fn answer_words(seed: u64, prompt: &str, count: usize) -> Vec<String> {
    let tokens = Tokens::words(seed, prompt, count);
    (0..count).map(|index| tokens.get(index)).collect()
}

/// The tokens of an answer. Words are drawn when they are asked for, so that a long answer takes no memory.
#[derive(Clone, Debug)]
pub(crate) enum Tokens {
    Words { start: u64, count: usize },
    Pieces(Vec<String>),
}

impl Tokens {
    pub(crate) fn words(seed: u64, prompt: &str, count: usize) -> Self {
        Self::Words { start: hash(mix(seed), prompt), count }
    }

    /// A text, cut after each space.
    pub(crate) fn pieces(text: &str) -> Self {
        Self::Pieces(text.split_inclusive(' ').map(str::to_owned).collect())
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Words { count, .. } => *count,
            Self::Pieces(pieces) => pieces.len(),
        }
    }

    /// The token at a place below the length.
    pub(crate) fn get(&self, index: usize) -> String {
        match self {
            Self::Words { start, .. } => word(*start, index as u64),
            Self::Pieces(pieces) => pieces.get(index).cloned().unwrap_or_default(),
        }
    }

    pub(crate) fn text(&self) -> String {
        (0..self.len()).map(|index| self.get(index)).collect()
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        match self {
            Self::Words { count, .. } => *count = length.min(*count),
            Self::Pieces(pieces) => pieces.truncate(length),
        }
    }
}

/// The tokens of a prompt as this provider counts them: a quarter of its characters, rounded up.
pub fn prompt_tokens(prompt: &str) -> u64 {
    (prompt.chars().count() as u64).div_ceil(4)
}

/// A vector of unit length for a text, as an embedding.
pub(crate) fn embedding(seed: u64, text: &str, dimensions: usize) -> Vec<f32> {
    let start = hash(mix(seed), text);
    let raw = (0..dimensions as u64).map(|i| (mix(start.wrapping_add(i)) >> 40) as f32 / 8_388_608.0 - 1.0);
    let values: Vec<f32> = raw.collect();
    let length = values.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    values.into_iter().map(|value| value / length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_depend_on_seed_and_prompt_alone() {
        assert_eq!(answer_words(1, "hello", 8), answer_words(1, "hello", 8));
        assert_eq!(answer_words(1, "hello", 9)[..8], answer_words(1, "hello", 8)[..]);
        assert_ne!(answer_words(1, "hello", 8), answer_words(2, "hello", 8));
        assert_ne!(answer_words(1, "hello", 8), answer_words(1, "hello!", 8));
    }

    #[test]
    fn embeddings_have_unit_length() {
        let vector = embedding(3, "text", 384);
        let square: f32 = vector.iter().map(|value| value * value).sum();
        assert!((square - 1.0).abs() < 1e-4, "{square}");
    }
}
