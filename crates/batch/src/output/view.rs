//! A line with all that is known of it.

use crate::fault::Fault;
use crate::journal::rows::Answer;
use crate::request::Key;
use sha2::{Digest, Sha256};

/// A line of the input and what became of it.
pub(crate) struct View<'a> {
    /// The line's number among the records, from 0.
    pub(crate) number: u64,
    /// The number of the line of text, from 1.
    pub(crate) at: u64,
    /// The record; `None` if it is too long.
    pub(crate) record: Option<&'a [u8]>,
    /// Why it has no answer.
    pub(crate) fault: Option<&'a Fault>,
    pub(crate) answer: Option<&'a Answer>,
}

impl View<'_> {
    /// What tells this line from all others.
    pub(crate) fn name(&self) -> Key {
        let mut hash = Sha256::new();
        hash.update(self.answer.map_or([0; 32], |answer| answer.key));
        hash.update(self.number.to_be_bytes());
        hash.finalize().into()
    }
}
