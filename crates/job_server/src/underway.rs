//! The batches that this process works on, each once.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Batches that are worked on at once.
const AT_ONCE: usize = 2;

/// The batches that this process works on.
#[derive(Debug, Default)]
pub(crate) struct Underway(Mutex<HashSet<String>>);

impl Underway {
    /// Takes a batch, unless it is worked on or too many are.
    pub(crate) fn begin(&self, id: &str) -> bool {
        let mut ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ids.len() < AT_ONCE && ids.insert(id.to_owned())
    }

    /// Gives a batch back.
    pub(crate) fn end(&self, id: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}
