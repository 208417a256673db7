//! What was found in messages that come again: a conversation's history is sent with each turn, and only its new turn is scanned.

use crate::rules::{Finding, Rules, Scan};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Texts shorter than this are scanned sooner than looked up.
const SHORT: usize = 256;

/// Parts of the cache, each with its own lock.
const SHARDS: usize = 16;

/// What an entry costs beside its findings: key, links, and its share of the table, in bytes.
const ENTRY: usize = 160;

/// The least cache: one entry with some findings in each part.
const LEAST: usize = SHARDS * 4_096;

type Key = [u8; 32];

/// A cache of scans, bounded in bytes: those that were used longest ago are forgotten.
///
/// Keys are hashes of the text, of the rules, and of a secret that the caller draws at random for the process; no text is
/// kept, and nobody without the secret can tell from timing which texts were seen.
pub struct Verdicts {
    secret: [u8; 32],
    shards: Vec<Mutex<Shard>>,
}

impl fmt::Debug for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verdicts").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl Verdicts {
    /// An empty cache of at most so many bytes, but at least 64 KiB. The secret is 32 random bytes.
    #[must_use]
    pub fn new(secret: [u8; 32], max_bytes: usize) -> Self {
        let each = max_bytes.max(LEAST) / SHARDS;
        let shard = || Mutex::new(Shard { max_bytes: each, first: NONE, last: NONE, ..Shard::default() });
        Verdicts { secret, shards: (0..SHARDS).map(|_| shard()).collect() }
    }

    /// What is in a text, from the cache if it was scanned before by the same rules.
    pub(crate) fn scan(&self, rules: &Rules, text: &str, hint: u128) -> Scan {
        if text.len() < SHORT {
            return rules.scan_under(text, hint);
        }
        let key = self.key(rules, text, hint);
        if let Some(known) = self.shard(&key, |shard| shard.get(&key)) {
            return known;
        }
        // Scanned without the lock.
        let scan = rules.scan_under(text, hint);
        self.shard(&key, |shard| shard.put(key, scan.clone()));
        scan
    }

    /// What is in a message's text, from the cache if it was scanned before by the same rules.
    #[must_use]
    pub fn scan_text(&self, rules: &Rules, text: &str) -> Scan {
        self.scan(rules, text, 0)
    }

    /// Bytes that the cache takes, by its own count.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let lock = |shard: &Mutex<Shard>| shard.lock().unwrap_or_else(PoisonError::into_inner).bytes;
        self.shards.iter().map(lock).sum()
    }

    fn key(&self, rules: &Rules, text: &str, hint: u128) -> Key {
        // All parts before the text have fixed lengths, so no two inputs are hashed as the same bytes; the secret is hashed
        // first and last, so that an input cannot be lengthened.
        let mut hash = Sha256::new();
        hash.update(self.secret);
        hash.update(rules.fingerprint());
        hash.update(hint.to_le_bytes());
        hash.update(text);
        hash.update(self.secret);
        hash.finalize().into()
    }

    fn shard<T>(&self, key: &Key, act: impl FnOnce(&mut Shard) -> T) -> T {
        let shard = &self.shards[usize::from(key[0]) % SHARDS];
        act(&mut shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// No entry.
const NONE: usize = usize::MAX;

/// Entries by key, linked in the order of their use.
#[derive(Default)]
struct Shard {
    max_bytes: usize,
    bytes: usize,
    places: HashMap<Key, usize>,
    entries: Vec<Entry>,
    free: Vec<usize>,
    /// Used last, and used longest ago.
    first: usize,
    last: usize,
}

struct Entry {
    key: Key,
    scan: Scan,
    before: usize,
    after: usize,
}

fn cost(scan: &Scan) -> usize {
    ENTRY + scan.findings.len() * size_of::<Finding>()
}

impl Shard {
    fn get(&mut self, key: &Key) -> Option<Scan> {
        let at = *self.places.get(key)?;
        self.unlink(at);
        self.link(at);
        Some(self.entries[at].scan.clone())
    }

    fn put(&mut self, key: Key, mut scan: Scan) {
        scan.findings.shrink_to_fit();
        let cost = cost(&scan);
        if cost > self.max_bytes || self.places.contains_key(&key) {
            return;
        }
        while self.bytes + cost > self.max_bytes {
            self.forget_last();
        }
        let entry = Entry { key, scan, before: NONE, after: NONE };
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        };
        self.places.insert(key, at);
        self.bytes += cost;
        self.link(at);
    }

    fn forget_last(&mut self) {
        let at = self.last;
        if at == NONE {
            return;
        }
        self.unlink(at);
        let scan = std::mem::take(&mut self.entries[at].scan);
        self.bytes -= cost(&scan);
        self.places.remove(&self.entries[at].key);
        self.free.push(at);
    }

    fn link(&mut self, at: usize) {
        (self.entries[at].before, self.entries[at].after) = (NONE, self.first);
        match self.first {
            NONE => self.last = at,
            first => self.entries[first].before = at,
        }
        self.first = at;
    }

    fn unlink(&mut self, at: usize) {
        let (before, after) = (self.entries[at].before, self.entries[at].after);
        match before {
            NONE => self.first = after,
            before => self.entries[before].after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.entries[after].before = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_keeps_its_bound_and_forgets_what_was_used_longest_ago() {
        let verdicts = Verdicts::new([7; 32], 0);
        let rules = Rules::default();
        let text = |n: usize| format!("message {n} {} to bob{n}@example.com", "word ".repeat(60));
        for n in 0..2_000 {
            let scan = verdicts.scan_text(&rules, &text(n));
            assert_eq!(scan, rules.scan(&text(n)));
            // Used again and again, so never forgotten.
            let key = verdicts.key(&rules, &text(0), 0);
            assert!(verdicts.shard(&key, |shard| shard.get(&key)).is_some());
            assert!(verdicts.bytes() <= LEAST);
        }
        let known = |n: usize| {
            let key = verdicts.key(&rules, &text(n), 0);
            verdicts.shard(&key, |shard| shard.get(&key)).is_some()
        };
        assert!(known(1_999) && !known(1));
        let slots: usize =
            verdicts.shards.iter().map(|shard| shard.lock().map_or(0, |it| it.entries.len())).sum();
        assert!(slots <= LEAST / ENTRY);
    }

    #[test]
    fn other_rules_and_secrets_have_other_keys() {
        let (one, other) = (Verdicts::new([1; 32], 0), Verdicts::new([2; 32], 0));
        let rules = Rules::default();
        let fewer = crate::Settings { except: vec![crate::Kind::Email], ..Default::default() };
        assert!(Rules::new(&fewer).is_ok_and(|fewer| one.key(&fewer, "a", 0) != one.key(&rules, "a", 0)));
        assert_ne!(one.key(&rules, "a", 0), other.key(&rules, "a", 0));
        assert_ne!(one.key(&rules, "a", 0), one.key(&rules, "a", 1));
    }
}
