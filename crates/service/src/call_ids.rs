//! Ids of the tool calls of an answer.

use std::hash::{BuildHasher, RandomState};

/// Ids of one answer's calls: random, and the same for the same call however often it is asked.
pub(crate) struct CallIds {
    random: RandomState,
    /// Mistral's templates refuse ids that are not nine letters and digits.
    short: bool,
}

impl CallIds {
    pub(crate) fn new(short: bool) -> CallIds {
        CallIds { random: RandomState::new(), short }
    }

    /// The id of the `index`-th call of a choice.
    pub(crate) fn id(&self, choice: usize, index: usize) -> String {
        const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let (start, len) = if self.short { ("", 9) } else { ("call_", 24) };
        let mut id = start.to_owned();
        id.extend((0..len).map(|at| {
            let hash = self.random.hash_one((choice, index, at));
            char::from(LETTERS[usize::try_from(hash % 62).unwrap_or(0)])
        }));
        id
    }
}

#[cfg(test)]
mod tests {
    use super::CallIds;

    #[test]
    fn ids_are_unique_and_stay() {
        let (ids, others) = (CallIds::new(false), CallIds::new(true));
        let mut all: Vec<String> =
            (0..16).flat_map(|c| (0..16).map(move |i| (c, i))).map(|(c, i)| ids.id(c, i)).collect();
        assert_eq!(all[17], ids.id(1, 1));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 256);
        let short = others.id(0, 0);
        assert!(short.len() == 9 && short.bytes().all(|b| b.is_ascii_alphanumeric()), "{short}");
    }
}
