//! API keys: kept as hashes, compared in constant time, each with a name and with limits of its own.

use std::fmt;
use std::sync::Arc;

use inference::Client;
use sha2::{Digest, Sha256};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use crate::allowance::{Allowance, KeyLimits};

/// Most keys a server holds.
const MAX_KEYS: usize = 1_024;
const MAX_KEY_BYTES: usize = 1_024;
const MAX_NAME_BYTES: usize = 64;

/// The keys that open the server. Debug output shows how many, never which.
#[derive(Clone, Default)]
pub struct Keys {
    entries: Vec<Entry>,
    /// For keys that say nothing else.
    limits: KeyLimits,
}

#[derive(Clone)]
struct Entry {
    hash: [u8; 32],
    /// Length of the key.
    bytes: usize,
    allowance: Arc<Allowance>,
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
    /// The same key again.
    #[error("API key number {1} is the same as number {0}")]
    Twice(usize, usize),
    /// A word behind a key that is none of the four.
    #[error(
        "after API key number {0} stands {1:?}; known are name=TEXT, requests=N, tokens=N (both a minute) and \
         concurrent=N, each N at least 1"
    )]
    Word(usize, String),
}

impl Keys {
    /// No keys yet; those that say nothing of their own get `limits`.
    pub fn new(limits: KeyLimits) -> Keys {
        Keys { entries: Vec::new(), limits }
    }

    /// Adds a key, named after its hash.
    ///
    /// # Errors
    /// One that no header carries, that is there already, or that is one too many.
    pub fn add(&mut self, key: &str) -> Result<(), KeysError> {
        self.add_named(key, None, self.limits)
    }

    /// Adds the keys of a file's text: one a line, then words: `name=TEXT`, and instead of the common limits
    /// `requests=N`, `tokens=N`, `concurrent=N`. Empty lines and those that begin with `#` are left out.
    ///
    /// # Errors
    /// As [`Keys::add`], and a word that is not known.
    pub fn add_lines(&mut self, text: &str) -> Result<(), KeysError> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.into_iter().try_for_each(|line| self.add_line(line))
    }

    fn add_line(&mut self, line: &str) -> Result<(), KeysError> {
        let number = self.entries.len() + 1;
        let mut words = line.split_ascii_whitespace();
        let key = words.next().unwrap_or_default();
        let (mut name, mut limits) = (None, self.limits);
        for word in words {
            let wrong = || KeysError::Word(number, word.chars().take(MAX_NAME_BYTES).collect());
            let (field, value) = word.split_once('=').ok_or_else(wrong)?;
            let count = || value.parse::<u32>().ok().filter(|count| *count > 0).ok_or_else(wrong);
            match field {
                "name" if is_name(value) => name = Some(value),
                "requests" => limits.requests_per_minute = Some(count()?),
                "tokens" => limits.tokens_per_minute = Some(count()?),
                "concurrent" => limits.concurrent = Some(count()?),
                _ => return Err(wrong()),
            }
        }
        self.add_named(key, name, limits)
    }

    fn add_named(&mut self, key: &str, name: Option<&str>, limits: KeyLimits) -> Result<(), KeysError> {
        let number = self.entries.len() + 1;
        if key.is_empty() {
            return Err(KeysError::Empty);
        }
        if key.len() > MAX_KEY_BYTES {
            return Err(KeysError::Long(number, key.len()));
        }
        if !key.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(KeysError::Character(number));
        }
        if self.entries.len() == MAX_KEYS {
            return Err(KeysError::Many);
        }
        let hash = hash(key);
        if let Some(first) = self.entries.iter().position(|entry| entry.hash == hash) {
            return Err(KeysError::Twice(first + 1, number));
        }
        let name = name.map_or_else(|| short(&hash), str::to_owned);
        let allowance = Arc::new(Allowance::new(name, client(&hash), limits, Arc::default()));
        self.entries.push(Entry { hash, bytes: key.len(), allowance });
        Ok(())
    }

    /// Whether there are none, which lets everybody in.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The shortest key: its number from 1 on, and how many characters it has.
    pub fn shortest(&self) -> Option<(usize, usize)> {
        let lengths = self.entries.iter().enumerate().map(|(index, entry)| (index + 1, entry.bytes));
        lengths.min_by_key(|(_, bytes)| *bytes)
    }

    /// Takes over what `before` has counted for the keys that are in both, so that reading a file again does not give
    /// anybody a fresh allowance.
    pub(crate) fn inherit(&mut self, before: &Keys) {
        for entry in &mut self.entries {
            if let Some(old) = before.entries.iter().find(|old| old.hash == entry.hash) {
                entry.allowance = Arc::new(entry.allowance.with(old.allowance.used()));
            }
        }
    }

    /// Whose key `authorization`, a header's value, shows. Takes the same time wherever it differs from the keys, and
    /// whichever it is.
    pub(crate) fn admit(&self, authorization: Option<&str>) -> Option<Arc<Allowance>> {
        let (scheme, key) = authorization?.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let shown = hash(key.trim());
        let mut place = u32::MAX;
        for (index, entry) in (0..).zip(&self.entries) {
            place.conditional_assign(&index, entry.hash.ct_eq(&shown));
        }
        self.entries.get(usize::try_from(place).ok()?).map(|entry| entry.allowance.clone())
    }
}

impl Keys {
    /// The client whose key has this name; the one of nobody if there is none.
    pub(crate) fn client_named(&self, name: &str) -> Client {
        let named = self.entries.iter().find(|entry| entry.allowance.name() == name);
        named.map_or_else(Client::default, |entry| entry.allowance.client())
    }
}

/// A number for each key, the same after a restart: the first eight bytes of its hash.
fn client(hash: &[u8; 32]) -> Client {
    Client(hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// What a log can hold as one word.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_NAME_BYTES
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.@/:".contains(&b))
}

fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// The first four bytes of a hash: enough to tell keys apart in a log, useless to find one.
fn short(hash: &[u8; 32]) -> String {
    let [a, b, c, d, ..] = hash;
    format!("key-{a:02x}{b:02x}{c:02x}{d:02x}")
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.entries.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Result<Keys, KeysError> {
        let mut keys = Keys::default();
        keys.add_lines(text).map(|()| keys)
    }

    #[test]
    fn admits_its_keys_only() {
        let keys = keys("# team a\nalpha name=a\n\n  beta  \n").unwrap();
        assert_eq!(keys.admit(Some("Bearer alpha")).unwrap().name(), "a");
        // printf beta | sha256sum
        let beta = keys.admit(Some("bearer beta")).unwrap();
        assert_eq!((beta.name(), beta.client().0 >> 32), ("key-f44e64e7", 0xf44e_64e7));
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
        assert_eq!(keys.shortest(), Some((2, 4)));
    }

    #[test]
    fn refuses_what_no_header_carries() {
        let mut keys = Keys::default();
        assert_eq!(keys.add(""), Err(KeysError::Empty));
        assert_eq!(keys.add("a b"), Err(KeysError::Character(1)));
        assert_eq!(keys.add("ключ"), Err(KeysError::Character(1)));
        assert_eq!(keys.add(&"x".repeat(1_025)), Err(KeysError::Long(1, 1_025)));
        assert!(keys.is_empty());
        assert_eq!(keys.add("a").and(keys.add("a")), Err(KeysError::Twice(1, 2)));
    }

    #[test]
    fn limits_of_a_line() {
        let mut keys = Keys::new(KeyLimits { concurrent: Some(2), ..KeyLimits::default() });
        keys.add_lines("a\nb requests=60 tokens=1000 concurrent=4 name=team/b").unwrap();
        let limits = |key: &str| keys.admit(Some(&format!("Bearer {key}"))).unwrap().limits();
        assert_eq!(limits("a"), KeyLimits { concurrent: Some(2), ..KeyLimits::default() });
        let of_b =
            KeyLimits { requests_per_minute: Some(60), tokens_per_minute: Some(1000), concurrent: Some(4) };
        assert_eq!(limits("b"), of_b);
        for wrong in
            ["a requests", "a requests=0", "a requests=-1", "a name=", "a name=\"x\"", "a who=b", "a b"]
        {
            let error = self::keys(wrong).unwrap_err();
            assert!(matches!(error, KeysError::Word(1, _)), "{wrong}: {error}");
            assert!(!error.to_string().contains("a requests"), "the key is not told");
        }
    }

    #[test]
    fn a_new_reading_keeps_what_was_used() {
        let before = keys("a requests=1").unwrap();
        let a = |keys: &Keys| keys.admit(Some("Bearer a")).unwrap();
        let now = std::time::Instant::now();
        assert!(a(&before).enter(now).is_ok());
        let mut after = keys("b\na requests=1").unwrap();
        after.inherit(&before);
        assert!(a(&after).enter(now).is_err());
        assert!(after.admit(Some("Bearer b")).unwrap().enter(now).is_ok());
    }
}
