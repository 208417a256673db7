//! SHA-256 in the forms in which the crate uses it.

use sha2::{Digest, Sha256};
use std::collections::HashSet;

/// SHA-256 of bytes, in hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("writing to a string does not fail");
        hex
    })
}

/// A set of names of any length, as hashes of 16 bytes. Two names with one hash are not found in practice.
#[derive(Debug, Default)]
pub(crate) struct Names {
    seen: HashSet<u128>,
}

impl Names {
    /// Adds a name; false if it was there.
    pub(crate) fn insert(&mut self, name: &str) -> bool {
        let mut first = [0; 16];
        first.copy_from_slice(&Sha256::digest(name.as_bytes())[..16]);
        self.seen.insert(u128::from_le_bytes(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_standard() {
        // FIPS 180-2, appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex(b"abc"), abc);
    }

    #[test]
    fn a_name_is_new_once() {
        let mut names = Names::default();
        assert!(names.insert("a") && names.insert("b") && !names.insert("a"));
    }
}
