//! A map from hashes to small values, bounded in number, that forgets what was used longest ago.
//!
//! Entries lie in one vector and are linked by their places, so that a use costs no allocation.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::random::mix;

/// A hasher of keys that are hashes or numbers already: one mix.
#[derive(Clone, Copy, Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = mix(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = mix(self.0 ^ value);
    }
}

/// A hash map by keys that are hashes already.
pub(crate) type KeyMap<V> = HashMap<u64, V, BuildHasherDefault<KeyHasher>>;

/// The end of the list of uses.
const NONE: u32 = u32::MAX;

struct Node<V> {
    key: u64,
    newer: u32,
    older: u32,
    value: V,
}

/// A map of at most `limit` values; the least recently used one goes first.
pub(crate) struct Lru<V> {
    places: KeyMap<u32>,
    nodes: Vec<Node<V>>,
    /// Places whose entries were removed.
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    limit: usize,
}

impl<V> Lru<V> {
    /// Upper bound of the bytes of an entry: the node, and the map's key, place and control byte at the map's least
    /// fill after growth (7 of 16).
    pub(crate) const ENTRY_BYTES: usize = size_of::<Node<V>>() * 2 + 17 * 16 / 7;

    pub(crate) fn new(limit: usize) -> Lru<V> {
        let limit = limit.clamp(1, NONE as usize - 1);
        Lru {
            places: KeyMap::default(),
            nodes: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            limit,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The value of `key`, without counting as a use.
    pub(crate) fn peek(&self, key: u64) -> Option<&V> {
        self.places.get(&key).map(|place| &self.nodes[*place as usize].value)
    }

    /// The value of `key`, to change it without counting as a use.
    pub(crate) fn peek_mut(&mut self, key: u64) -> Option<&mut V> {
        self.places.get(&key).map(|place| &mut self.nodes[*place as usize].value)
    }

    /// The value of `key`, made by `make` if there is none; counts as a use.
    pub(crate) fn use_or_insert(&mut self, key: u64, make: impl FnOnce() -> V) -> &mut V {
        let place = match self.places.get(&key) {
            Some(place) => {
                let place = *place;
                self.unlink(place);
                place
            }
            None => {
                let place = self.place_for(key, make());
                self.places.insert(key, place);
                place
            }
        };
        self.link_newest(place);
        &mut self.nodes[place as usize].value
    }

    /// A place for a new entry: a free one, that of the oldest entry, or one more.
    fn place_for(&mut self, key: u64, value: V) -> u32 {
        let node = Node { key, newer: NONE, older: NONE, value };
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.nodes.len() < self.limit => {
                self.nodes.push(node);
                return self.nodes.len() as u32 - 1;
            }
            None => {
                let oldest = self.oldest;
                self.unlink(oldest);
                self.places.remove(&self.nodes[oldest as usize].key);
                oldest
            }
        };
        self.nodes[place as usize] = node;
        place
    }

    pub(crate) fn remove(&mut self, key: u64) {
        if let Some(place) = self.places.remove(&key) {
            self.unlink(place);
            self.free.push(place);
        }
    }

    /// Changes all values, and removes those for which `keep` is false.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&mut V) -> bool) {
        let mut place = self.newest;
        while place != NONE {
            let node = &mut self.nodes[place as usize];
            let (older, key) = (node.older, node.key);
            if !keep(&mut node.value) {
                self.remove(key);
            }
            place = older;
        }
    }

    fn unlink(&mut self, place: u32) {
        let Node { newer, older, .. } = self.nodes[place as usize];
        match newer {
            NONE => self.newest = older,
            _ => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            _ => self.nodes[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, place: u32) {
        let before = self.newest;
        let node = &mut self.nodes[place as usize];
        (node.newer, node.older) = (NONE, before);
        match before {
            NONE => self.oldest = place,
            _ => self.nodes[before as usize].newer = place,
        }
        self.newest = place;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a list that is kept in the order of use.
        #[test]
        fn random_uses_are_those_of_a_list(uses in prop::collection::vec((0_u64..12, 0_u8..8), 0..300)) {
            let (mut lru, mut list) = (Lru::new(5), Vec::<(u64, u64)>::new());
            for (at, (key, what)) in uses.into_iter().enumerate() {
                let found = list.iter().position(|(other, _)| *other == key);
                match what {
                    0 => {
                        lru.remove(key);
                        found.map(|place| list.remove(place));
                    }
                    1 => {
                        lru.retain(|value| *value % 3 != 0);
                        list.retain(|(_, value)| value % 3 != 0);
                    }
                    _ => {
                        let value = *lru.use_or_insert(key, || at as u64);
                        let entry = found.map_or((key, at as u64), |place| list.remove(place));
                        list.push(entry);
                        prop_assert_eq!(value, entry.1);
                        if list.len() > 5 {
                            list.remove(0);
                        }
                    }
                }
                prop_assert_eq!(lru.len(), list.len());
                for key in 0..12 {
                    let expected = list.iter().find(|(other, _)| *other == key).map(|(_, value)| value);
                    prop_assert_eq!(lru.peek(key), expected);
                }
            }
        }
    }
}
