//! The tokens of words that came lately: texts repeat their words, and merges take microseconds.

use std::sync::{Mutex, TryLockError};

use tokenizers::Token;

/// Words that are kept; a power of two.
const SLOTS: usize = 4096;
/// The longest word that is kept, in bytes: with its tokens at most 600 bytes a slot.
const MAX_BYTES: usize = 64;

/// A word and its tokens: id and length in bytes.
struct Entry {
    word: Box<str>,
    tokens: Box<[(u32, u32)]>,
}

/// A cache of one place for each hash. Who finds it in use goes without.
#[derive(Default)]
pub(super) struct WordCache(Mutex<Vec<Option<Entry>>>);

/// FNV-1a (Fowler, Noll, Vo): whatever texts collide in, they only take each other's place.
fn slot(word: &str) -> usize {
    let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 32) as usize & (SLOTS - 1)
}

impl WordCache {
    /// The tokens of a word, from the cache or from `make`.
    pub(super) fn get(&self, word: &str, make: impl FnOnce() -> Vec<Token>) -> Vec<Token> {
        if word.len() > MAX_BYTES {
            return make();
        }
        let slot = slot(word);
        if let Some(found) = self.with(|slots| {
            let entry = slots.get(slot)?.as_ref().filter(|entry| *entry.word == *word)?;
            let mut at = 0;
            let token = |(id, len): &(u32, u32)| {
                let start = at;
                at += *len as usize;
                Token::new(*id, String::new(), (start, at))
            };
            Some(entry.tokens.iter().map(token).collect())
        }) {
            return found;
        }
        let tokens = make();
        let length = |token: &Token| u32::try_from(token.offsets.1 - token.offsets.0).unwrap_or(u32::MAX);
        let kept = tokens.iter().map(|token| (token.id, length(token))).collect();
        self.with(|slots| {
            if slots.is_empty() {
                slots.resize_with(SLOTS, || None);
            }
            *slots.get_mut(slot)? = Some(Entry { word: word.into(), tokens: kept });
            Some(())
        });
        tokens
    }

    fn with<T>(&self, work: impl FnOnce(&mut Vec<Option<Entry>>) -> Option<T>) -> Option<T> {
        match self.0.try_lock() {
            Ok(mut slots) => work(&mut slots),
            // A panic leaves whole entries or none.
            Err(TryLockError::Poisoned(slots)) => work(&mut slots.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_made_once_and_others_take_its_place() {
        let cache = WordCache::default();
        let tokens = |ids: &[u32]| {
            let token = |(at, id): (usize, &u32)| Token::new(*id, String::new(), (at, at + 1));
            ids.iter().enumerate().map(token).collect::<Vec<_>>()
        };
        assert_eq!(cache.get("ab", || tokens(&[1, 2])), tokens(&[1, 2]));
        assert_eq!(cache.get("ab", || panic!("it is kept")), tokens(&[1, 2]));
        let other = (0..1 << 20).map(|n| n.to_string()).find(|word| slot(word) == slot("ab")).unwrap();
        assert_eq!(cache.get(&other, || tokens(&[3])), tokens(&[3]));
        assert_eq!(cache.get("ab", || tokens(&[4, 5])), tokens(&[4, 5]), "it is made again");
        let long = "a".repeat(MAX_BYTES + 1);
        assert_eq!(cache.get(&long, || tokens(&[6])), tokens(&[6]));
        assert_eq!(cache.get(&long, || tokens(&[7])), tokens(&[7]), "it is not kept");
    }
}
