//! Flags of the two programs: `--name value` or `--name`.

use std::collections::VecDeque;
use std::str::FromStr;
use thiserror::Error;

/// A command line that is not understood.
#[derive(Debug, Error, PartialEq)]
#[error("{0}")]
pub struct FlagError(String);

/// The words of a command line that have not been read.
pub struct Flags(VecDeque<String>);

impl Flags {
    /// The words after the program's name.
    pub fn new(words: impl IntoIterator<Item = String>) -> Self {
        Self(words.into_iter().collect())
    }

    /// The next flag.
    pub fn flag(&mut self) -> Option<String> {
        self.0.pop_front()
    }

    /// The value of a flag that has just been read.
    pub fn value<T: FromStr>(&mut self, flag: &str) -> Result<T, FlagError> {
        let word = self.0.pop_front().ok_or_else(|| FlagError(format!("{flag} needs a value")))?;
        word.parse().map_err(|_| FlagError(format!("{flag}: `{word}` is no value of it")))
    }

    /// The error for a flag that there is not.
    pub fn unknown(flag: &str, usage: &str) -> FlagError {
        FlagError(format!("there is no flag `{flag}`\n{usage}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_follow_their_flags() {
        let mut flags = Flags::new(["--tokens", "3", "--rate", "x", "--last"].map(str::to_owned));
        assert_eq!(flags.flag().as_deref(), Some("--tokens"));
        assert_eq!(flags.value("--tokens"), Ok(3));
        assert_eq!(flags.flag().as_deref(), Some("--rate"));
        assert!(flags.value::<f64>("--rate").is_err());
        assert_eq!(flags.flag().as_deref(), Some("--last"));
        assert!(flags.value::<u64>("--last").is_err());
        assert_eq!(flags.flag(), None);
    }
}
