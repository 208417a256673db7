//! Answers to deterministic requests, kept to be given again: bounded in bytes and time, apart by tenant.
//!
//! A request is deterministic where its client said so: by a temperature of 0 or by a seed. Only whole answers of status
//! 200 are kept; what failed, was cut, or came from a fallback model is not.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use bytes::Bytes;
use ledger::Amount;
use sha2::{Digest, Sha256};

/// Bytes of an entry beside its body: key, headers, and places in the maps.
const ENTRY_BYTES: usize = 1_024;
/// An answer is kept where it has at most this part of all bytes.
pub(crate) const PART: usize = 4;

/// A request's identity: equal keys have equal answers.
///
/// The tenant stands beside the hash, so that no collision leads to another tenant's answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    tenant: u64,
    digest: [u8; 32],
}

impl Key {
    /// The key of a tenant's request with these parts.
    pub(crate) fn new<'a>(tenant: u64, parts: impl Iterator<Item = &'a [u8]>) -> Key {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Key { tenant, digest: hash.finalize().into() }
    }
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct KeptAnswer {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// What it cost, and a hit saves.
    pub(crate) price: Amount,
}

struct Entry {
    answer: Arc<KeptAnswer>,
    used: u64,
    until: Duration,
}

/// The answers; the least recently used one goes first.
pub(crate) struct Answers {
    by_key: HashMap<Key, Entry>,
    by_use: BTreeMap<u64, Key>,
    uses: u64,
    bytes: usize,
    limit: usize,
    keep: Duration,
}

impl Answers {
    /// No answers, at most `limit` bytes of them, each for `keep`.
    pub(crate) fn new(limit: usize, keep: Duration) -> Answers {
        Answers { by_key: HashMap::new(), by_use: BTreeMap::new(), uses: 0, bytes: 0, limit, keep }
    }

    /// Most bytes of all answers.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// The answer of a key at a time since the start.
    pub(crate) fn get(&mut self, key: &Key, now: Duration) -> Option<Arc<KeptAnswer>> {
        if self.by_key.get(key)?.until <= now {
            self.remove(key);
            return None;
        }
        self.uses += 1;
        let entry = self.by_key.get_mut(key)?;
        self.by_use.remove(&entry.used);
        entry.used = self.uses;
        self.by_use.insert(entry.used, key.clone());
        Some(entry.answer.clone())
    }

    /// Keeps an answer, if it is small enough; the least recently used ones make room.
    pub(crate) fn put(&mut self, key: Key, answer: KeptAnswer, now: Duration) {
        self.remove(&key);
        let bytes = weight(&answer);
        if bytes > self.limit / PART {
            return;
        }
        while self.bytes + bytes > self.limit {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            self.remove(&oldest);
        }
        self.uses += 1;
        self.bytes += bytes;
        self.by_use.insert(self.uses, key.clone());
        let until = now.saturating_add(self.keep);
        self.by_key.insert(key, Entry { answer: Arc::new(answer), used: self.uses, until });
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.by_key.remove(key) {
            self.by_use.remove(&entry.used);
            self.bytes -= weight(&entry.answer);
        }
    }
}

fn weight(answer: &KeptAnswer) -> usize {
    answer.body.len() + ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

    use super::*;

    fn key(tenant: u64, n: u8) -> Key {
        Key { tenant, digest: [n; 32] }
    }

    fn answer(bytes: usize) -> KeptAnswer {
        KeptAnswer { headers: HeaderMap::new(), body: vec![b'x'; bytes].into(), price: Amount::ZERO }
    }

    const NOW: Duration = Duration::from_secs(100);

    #[test]
    fn answers_expire() {
        let mut answers = Answers::new(1 << 20, Duration::from_secs(10));
        answers.put(key(1, 1), answer(10), NOW);
        assert!(answers.get(&key(1, 1), NOW + Duration::from_millis(9_999)).is_some());
        assert!(answers.get(&key(1, 1), NOW + Duration::from_secs(10)).is_none());
        assert_eq!((answers.bytes, answers.by_use.len()), (0, 0));
    }

    #[test]
    fn tenants_are_apart() {
        let mut answers = Answers::new(1 << 20, Duration::from_secs(10));
        answers.put(key(1, 1), answer(10), NOW);
        assert!(answers.get(&key(2, 1), NOW).is_none());
    }

    #[test]
    fn bytes_are_bounded_and_the_least_used_goes_first() {
        let mut answers = Answers::new(64 << 10, Duration::from_secs(10));
        for n in 0..100 {
            answers.put(key(1, n), answer(7 << 10), NOW);
            assert!(answers.bytes <= 64 << 10);
            assert!(answers.get(&key(1, 0), NOW).is_some(), "used after each, so that it stays");
        }
        assert_eq!(answers.by_key.len(), 8);
        assert_eq!(answers.by_use.len(), 8);
        assert!(answers.get(&key(1, 99), NOW).is_some() && answers.get(&key(1, 50), NOW).is_none());
        answers.put(key(1, 0), answer(17 << 10), NOW);
        assert!(
            answers.get(&key(1, 0), NOW).is_none(),
            "too large for a part of all, and its old answer is gone"
        );
        assert_eq!(answers.bytes, 7 * (8 << 10));
    }
}
