//! The prefix index: which targets hold the KV cache of which prefixes, as far as this router knows.
//!
//! An entry for each boundary hash, with a bit for each target, bounded in bytes; the least recently used go first.
//! Entries are written when a request is dispatched, undone when it fails, and corrected by the cached tokens that
//! answers report.

use crate::chain::Boundary;
use crate::lru::Lru;

/// Targets that the index knows; those in later slots have affinity by rendezvous alone.
pub(crate) const INDEXED_SLOTS: u32 = 256;

/// A set of slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slots([u64; (INDEXED_SLOTS / 64) as usize]);

impl Slots {
    fn place(slot: u32) -> Option<(usize, u64)> {
        (slot < INDEXED_SLOTS).then(|| ((slot / 64) as usize, 1 << (slot % 64)))
    }

    fn insert(&mut self, slot: u32) {
        if let Some((word, bit)) = Slots::place(slot) {
            self.0[word] |= bit;
        }
    }

    fn remove(&mut self, slot: u32) {
        if let Some((word, bit)) = Slots::place(slot) {
            self.0[word] &= !bit;
        }
    }

    fn is_empty(&self) -> bool {
        self.0 == Slots::default().0
    }

    /// The slots in ascending order.
    pub(crate) fn iter(self) -> impl Iterator<Item = u32> {
        self.0.into_iter().zip(0_u32..).flat_map(|(mut bits, word)| {
            std::iter::from_fn(move || {
                let bit = bits.trailing_zeros();
                bits &= bits.wrapping_sub(1);
                (bit < 64).then_some(word * 64 + bit)
            })
        })
    }
}

/// The index of one route.
pub(crate) struct PrefixIndex {
    entries: Lru<Slots>,
}

impl PrefixIndex {
    /// An index of at most `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> PrefixIndex {
        PrefixIndex { entries: Lru::new(bytes / Lru::<Slots>::ENTRY_BYTES) }
    }

    /// Upper bound of the bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.len() * Lru::<Slots>::ENTRY_BYTES
    }

    /// The number of boundaries that each slot of `depths` holds, in one pass from the end of the chain.
    pub(crate) fn depths(&self, chain: &[Boundary], depths: &mut [u32]) {
        depths.fill(0);
        let mut left = depths.len().min(INDEXED_SLOTS as usize);
        for (at, boundary) in chain.iter().enumerate().rev() {
            let Some(holders) = self.entries.peek(boundary.hash) else { continue };
            for slot in holders.iter() {
                if let Some(depth) = depths.get_mut(slot as usize).filter(|depth| **depth == 0) {
                    *depth = at as u32 + 1;
                    left -= 1;
                }
            }
            if left == 0 {
                return;
            }
        }
    }

    /// Notes that the target holds all of `chain`. The shallow boundaries, which more prompts share, count as used
    /// last.
    pub(crate) fn insert(&mut self, chain: &[Boundary], slot: u32) {
        for boundary in chain.iter().rev() {
            self.entries.use_or_insert(boundary.hash, Slots::default).insert(slot);
        }
    }

    /// Notes that the target does not hold the boundaries of `chain` from number `from` on.
    pub(crate) fn truncate(&mut self, chain: &[Boundary], from: usize, slot: u32) {
        for boundary in chain.iter().skip(from) {
            if let Some(holders) = self.entries.peek_mut(boundary.hash) {
                holders.remove(slot);
                if holders.is_empty() {
                    self.entries.remove(boundary.hash);
                }
            }
        }
    }

    /// Forgets a target: it was removed, or started anew with an empty cache.
    pub(crate) fn forget(&mut self, slot: u32) {
        self.entries.retain(|holders| {
            holders.remove(slot);
            !holders.is_empty()
        });
    }
}

/// Tokens of the first `count` boundaries.
pub(crate) fn tokens_of(chain: &[Boundary], count: usize) -> u64 {
    count.checked_sub(1).and_then(|at| chain.get(at)).map_or(0, |boundary| boundary.tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(hashes: &[u64]) -> Vec<Boundary> {
        hashes.iter().zip(1..).map(|(hash, at)| Boundary { hash: *hash, tokens: at * 100 }).collect()
    }

    fn held(index: &PrefixIndex, chain: &[Boundary], slot: usize) -> u32 {
        let mut depths = [0; 301];
        index.depths(chain, &mut depths);
        depths[slot]
    }

    #[test]
    fn the_deepest_boundary_counts() {
        let mut index = PrefixIndex::new(1 << 20);
        index.insert(&chain(&[1, 2, 3]), 0);
        index.insert(&chain(&[1, 4]), 70);
        index.insert(&chain(&[1, 2]), 300);
        let mut depths = [9; 80];
        let asked = chain(&[1, 2, 3, 5]);
        index.depths(&asked, &mut depths);
        assert_eq!((depths[0], depths[1], depths[70]), (3, 0, 1));
        assert_eq!((held(&index, &asked, 0), held(&index, &asked, 70), held(&index, &asked, 300)), (3, 1, 0));
        index.truncate(&asked, 1, 0);
        assert_eq!(held(&index, &asked, 0), 1);
        index.forget(0);
        assert_eq!((held(&index, &asked, 0), held(&index, &asked, 70)), (0, 1));
        assert_eq!(index.bytes(), 2 * Lru::<Slots>::ENTRY_BYTES);
    }

    #[test]
    fn it_stays_within_its_bytes_and_keeps_what_is_shared() {
        let mut index = PrefixIndex::new(64 << 10);
        for conversation in 0..10_000_u64 {
            index.insert(&chain(&[1, 2, 100 + conversation]), (conversation % 3) as u32);
            assert!(index.bytes() <= 64 << 10);
        }
        assert_eq!(held(&index, &chain(&[1, 2]), 0), 2);
        assert_eq!(held(&index, &chain(&[1, 2, 100]), 0), 2);
        assert_eq!(held(&index, &chain(&[1, 2, 100 + 9_999]), 0), 3);
    }

    #[test]
    fn slots_are_listed_in_order() {
        let mut slots = Slots::default();
        [255, 0, 64, 63].into_iter().for_each(|slot| slots.insert(slot));
        slots.insert(256);
        assert_eq!(slots.iter().collect::<Vec<_>>(), [0, 63, 64, 255]);
    }
}
