//! The tensor ledger: checks that each tensor of a file is claimed exactly once.
//!
//! A loader that forgets a tensor, or uses one twice, yields a model with wrong output and no error. The ledger turns
//! that into an error with the tensors' names.

use std::collections::BTreeMap;
use std::fmt;

/// The most names of each kind in a message; further ones are counted.
const SHOWN: usize = 8;

/// Tracks which of a file's tensors have been claimed.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    claims: BTreeMap<String, u32>,
    missing: Vec<String>,
}

/// The tensors that are missing, unused or claimed twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Error {
    /// Tensors that were claimed but are not in the file.
    pub missing: Vec<String>,
    /// Tensors of the file that were not claimed.
    pub left_over: Vec<String>,
    /// Tensors that were claimed more than once.
    pub twice: Vec<String>,
}

impl Ledger {
    /// A ledger of these tensors, none of them claimed.
    pub fn new(names: impl IntoIterator<Item = String>) -> Ledger {
        Ledger { claims: names.into_iter().map(|name| (name, 0)).collect(), missing: Vec::new() }
    }

    /// Claims `name`. Returns false if the file does not have it; [`Ledger::close`] then fails.
    pub fn claim(&mut self, name: &str) -> bool {
        match self.claims.get_mut(name) {
            Some(count) => {
                *count = count.saturating_add(1);
                true
            }
            None => {
                if !self.missing.iter().any(|m| m == name) {
                    self.missing.push(name.to_owned());
                }
                false
            }
        }
    }

    /// Claims `name` if the file has it. A missing tensor is not an error.
    pub fn claim_optional(&mut self, name: &str) -> bool {
        self.claims.contains_key(name) && self.claim(name)
    }

    /// Marks `name` as known and not needed, whether it is claimed or not.
    pub fn waive(&mut self, name: &str) {
        self.claims.remove(name);
    }

    /// Whether the file has `name`, without claiming it.
    pub fn has(&self, name: &str) -> bool {
        self.claims.contains_key(name)
    }

    /// Names not yet claimed.
    pub fn unclaimed(&self) -> impl Iterator<Item = &str> {
        self.claims.iter().filter(|(_, count)| **count == 0).map(|(name, _)| name.as_str())
    }

    /// Closes the ledger.
    ///
    /// # Errors
    /// The tensors that are missing, unused or claimed twice, if any.
    pub fn close(self) -> Result<(), Error> {
        let mut error = Error { missing: self.missing, ..Error::default() };
        for (name, count) in self.claims {
            match count {
                0 => error.left_over.push(name),
                1 => {}
                _ => error.twice.push(name),
            }
        }
        if error == Error::default() { Ok(()) } else { Err(error) }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            (&self.missing, "missing from the file"),
            (&self.left_over, "in the file but not part of this model"),
            (&self.twice, "claimed twice"),
        ];
        let mut first = true;
        for (names, what) in kinds {
            if names.is_empty() {
                continue;
            }
            let plural = if names.len() == 1 { "tensor" } else { "tensors" };
            let separator = if first { "" } else { "; " };
            first = false;
            write!(f, "{separator}{} {plural} {what}: ", names.len())?;
            f.write_str(&names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", "))?;
            if names.len() > SHOWN {
                write!(f, " and {} more", names.len() - SHOWN)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(names: &[&str]) -> Ledger {
        Ledger::new(names.iter().map(|n| (*n).to_owned()))
    }

    #[test]
    fn closes_when_each_is_claimed_once() {
        let mut l = ledger(&["a", "b", "rope_freqs"]);
        assert!(l.claim("a"));
        assert!(l.claim_optional("b"));
        assert!(!l.claim_optional("c"));
        l.waive("rope_freqs");
        assert_eq!(l.close(), Ok(()));
    }

    #[test]
    fn names_what_is_missing_left_over_and_twice() {
        let mut l = ledger(&["a", "b", "c"]);
        assert!(l.claim("a") && l.claim("a"));
        assert!(!l.claim("x") && !l.claim("x"));
        assert_eq!(l.unclaimed().collect::<Vec<_>>(), ["b", "c"]);
        let error = l.close().unwrap_err();
        assert_eq!(
            error.to_string(),
            "1 tensor missing from the file: x; 2 tensors in the file but not part of this model: b, c; \
             1 tensor claimed twice: a"
        );
    }

    #[test]
    fn a_long_list_is_cut_and_counted() {
        let names: Vec<String> = (0..30).map(|i| format!("t{i:02}")).collect();
        let text = Ledger::new(names).close().unwrap_err().to_string();
        assert!(
            text.contains("30 tensors") && text.contains("t07") && text.ends_with("and 22 more"),
            "{text}"
        );
    }
}
