//! An array of strings as the file has it, decoded when its strings are first asked for.
//!
//! A vocabulary and its merges are some 300,000 strings, which take longer to allocate than a packed model to load.

use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;

/// Strings; derefs to a slice of them.
#[derive(Clone)]
pub struct Strings {
    /// Lengths (u64, little-endian) and bytes of the strings, checked to be whole and UTF-8.
    encoded: Vec<u8>,
    count: usize,
    decoded: OnceLock<Vec<String>>,
}

impl Strings {
    /// The strings of an array's bytes, which were checked.
    pub(super) fn encoded(bytes: &[u8], count: usize) -> Strings {
        Strings { encoded: bytes.to_vec(), count, decoded: OnceLock::new() }
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn decode(&self) -> Vec<String> {
        let mut rest = &self.encoded[..];
        let mut next = || {
            let (length, tail) = rest.split_first_chunk()?;
            let (text, tail) = tail.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
            rest = tail;
            Some(String::from_utf8_lossy(text).into_owned())
        };
        (0..self.count).map_while(|_| next()).collect()
    }
}

impl From<Vec<String>> for Strings {
    fn from(strings: Vec<String>) -> Strings {
        Strings { encoded: Vec::new(), count: strings.len(), decoded: OnceLock::from(strings) }
    }
}

impl Deref for Strings {
    type Target = [String];

    fn deref(&self) -> &[String] {
        self.decoded.get_or_init(|| self.decode())
    }
}

impl PartialEq for Strings {
    fn eq(&self, other: &Strings) -> bool {
        self[..] == other[..]
    }
}

impl fmt::Debug for Strings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self[..], f)
    }
}
