//! Warnings for the client about ignored or approximated parts of a request.

/// Upper bound of a request's warnings; the response's headers carry fewer.
const MAX_WARNINGS: usize = 16;

/// Warnings as sentences, without duplicates.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Vec<String>);

impl Warnings {
    /// Adds a sentence, unless it is a duplicate or the list is full.
    pub(crate) fn add(&mut self, sentence: String) {
        if self.0.len() < MAX_WARNINGS && !self.0.contains(&sentence) {
            self.0.push(sentence);
        }
    }

    pub(crate) fn into_vec(self) -> Vec<String> {
        self.0
    }
}
