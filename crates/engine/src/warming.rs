//! Texts whose answers the prefix cache lacks, to be computed while there is nothing else to do.
//!
//! Where prompts are computed otherwise than answers ([`Forward::prefill_numerics_differ`](crate::Forward)), the prefix
//! cache holds blocks of prompts only, and a chat's next turn would compute the last answer again before its own words. So
//! the engine computes prompt and answer as one prompt when it is idle: the next turn finds it in the cache. A request that
//! arrives ends this within a step, and what was computed of it stays.

use std::collections::VecDeque;

/// Most texts that are remembered. One for each chat that somebody reads the answer of: older ones have lost their
/// blocks by then, or soon will.
const MAX_TEXTS: usize = 16;

/// A prompt with its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) tokens: Vec<u32>,
    /// See [`Request::cache_salt`](crate::Request::cache_salt).
    pub(crate) salt: u64,
}

/// Texts to compute, the newest last.
#[derive(Debug)]
pub(crate) struct Warming {
    texts: VecDeque<Text>,
    /// Shorter answers are not worth it: the next turn's prompt computes them in a step that it needs anyway.
    least: usize,
    /// Tokens that all of them may have: what the KV cache holds.
    room: usize,
}

impl Warming {
    /// Remembers texts with answers of at least `least` tokens, and at most `room` tokens of them.
    pub(crate) fn new(least: usize, room: usize) -> Warming {
        Warming { texts: VecDeque::new(), least, room }
    }

    /// Remembers a text that has ended, of which the cache lacks the last `lacking` tokens.
    pub(crate) fn ended(&mut self, tokens: &[u32], salt: u64, lacking: usize) {
        if lacking >= self.least.max(1) {
            self.put(Text { tokens: tokens.to_vec(), salt });
        }
    }

    /// Remembers a text, in place of older ones if there are too many.
    pub(crate) fn put(&mut self, text: Text) {
        self.texts.push_back(text);
        while self.texts.len() > MAX_TEXTS || self.tokens() > self.room {
            self.texts.pop_front();
        }
    }

    /// Forgets the texts that a request goes on with: it computes them itself.
    pub(crate) fn forget_beginnings_of(&mut self, tokens: &[u32], salt: u64) {
        self.texts.retain(|text| text.salt != salt || !tokens.starts_with(&text.tokens));
    }

    /// The newest text, which is computed now.
    pub(crate) fn take(&mut self) -> Option<Text> {
        self.texts.pop_back()
    }

    fn tokens(&self) -> usize {
        self.texts.iter().map(|text| text.tokens.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(first: u32, len: usize) -> Text {
        Text { tokens: (first..).take(len).collect(), salt: 0 }
    }

    #[test]
    fn the_newest_come_first_and_the_oldest_are_forgotten() {
        let mut warming = Warming::new(64, 100);
        (0..20).for_each(|i| warming.put(text(i, 1)));
        assert_eq!(warming.texts.len(), MAX_TEXTS);
        assert_eq!(warming.take(), Some(text(19, 1)));
        warming.put(text(7, 95));
        assert_eq!(warming.texts.len(), 6, "95 and five more");
        warming.put(text(7, 101));
        assert_eq!(warming.take(), None, "more than there is room for");
    }

    #[test]
    fn what_a_request_goes_on_with_is_its_own() {
        let mut warming = Warming::new(64, 100);
        warming.put(text(1, 5));
        warming.put(text(3, 5));
        warming.forget_beginnings_of(&text(1, 9).tokens, 7);
        assert_eq!(warming.texts.len(), 2, "another salt");
        warming.forget_beginnings_of(&text(1, 9).tokens, 0);
        assert_eq!(warming.take(), Some(text(3, 5)));
        assert_eq!(warming.take(), None);
    }
}
