//! API keys: kept as hashes, compared in constant time.

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// Most keys a server holds.
const MAX_KEYS: usize = 1_024;
const MAX_KEY_BYTES: usize = 1_024;

/// The keys that open the server. Debug output shows how many, never which.
#[derive(Clone, Default)]
pub struct Keys {
    hashes: Vec<[u8; 32]>,
}

/// A key that cannot be used. The message never holds the key.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum KeysError {
    /// No characters.
    #[error("an API key is empty")]
    Empty,
    /// Not sendable in a header.
    #[error("API key number {0} has a character that a header cannot carry (only visible ASCII)")]
    Character(usize),
    /// Too long.
    #[error("API key number {0} has {1} bytes; at most 1024 are allowed")]
    Long(usize, usize),
    /// Too many.
    #[error("there are more than 1024 API keys")]
    Many,
}

impl Keys {
    /// Adds a key.
    pub fn add(&mut self, key: &str) -> Result<(), KeysError> {
        let number = self.hashes.len() + 1;
        if key.is_empty() {
            return Err(KeysError::Empty);
        }
        if key.len() > MAX_KEY_BYTES {
            return Err(KeysError::Long(number, key.len()));
        }
        if !key.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(KeysError::Character(number));
        }
        if self.hashes.len() == MAX_KEYS {
            return Err(KeysError::Many);
        }
        self.hashes.push(hash(key));
        Ok(())
    }

    /// Adds the keys of a file's text: one a line; empty lines and those that begin with `#` are left out.
    pub fn add_lines(&mut self, text: &str) -> Result<(), KeysError> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.into_iter().try_for_each(|line| self.add(line))
    }

    /// Whether there are none, which lets everybody in.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Who shows one of the keys in `authorization`, a header's value, if anybody. Takes the same time wherever the keys
    /// differ.
    pub(crate) fn admit(&self, authorization: Option<&str>) -> Option<Client> {
        let shown = authorization.and_then(|value| {
            let (scheme, key) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
        });
        let shown = hash(shown?);
        let found = self.hashes.iter().fold(Choice::from(0), |found, key| found | key.ct_eq(&shown));
        bool::from(found).then(|| Client::of(&shown))
    }
}

/// Who sent a request: a number for each key, the same after a restart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Client(pub(crate) u64);

impl Client {
    fn of(hash: &[u8; 32]) -> Client {
        Client(hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.hashes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admits_its_keys_only() {
        let mut keys = Keys::default();
        keys.add_lines("# team a\nalpha\n\n  beta  \n").unwrap();
        let (alpha, beta) = (keys.admit(Some("Bearer alpha")), keys.admit(Some("bearer beta")));
        assert!(alpha.is_some() && beta.is_some() && alpha != beta);
        for wrong in [
            None,
            Some(""),
            Some("Bearer"),
            Some("Bearer "),
            Some("Bearer alph"),
            Some("Basic alpha"),
            Some("alpha"),
        ] {
            assert!(keys.admit(wrong).is_none(), "{wrong:?}");
        }
        assert_eq!(format!("{keys:?}"), "2 keys");
    }

    #[test]
    fn refuses_what_no_header_carries() {
        let mut keys = Keys::default();
        assert_eq!(keys.add(""), Err(KeysError::Empty));
        assert_eq!(keys.add("a b"), Err(KeysError::Character(1)));
        assert_eq!(keys.add("ключ"), Err(KeysError::Character(1)));
        assert_eq!(keys.add(&"x".repeat(1_025)), Err(KeysError::Long(1, 1_025)));
        assert!(keys.is_empty());
    }
}
