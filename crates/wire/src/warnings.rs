//! Notes for the client about what of a request is left out or approximated.

/// Most notes of a request; an answer's headers carry fewer.
const MOST: usize = 16;

/// Sentences, each once.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Vec<String>);

impl Warnings {
    /// Adds a sentence that is not there yet.
    pub(crate) fn add(&mut self, sentence: String) {
        if self.0.len() < MOST && !self.0.contains(&sentence) {
            self.0.push(sentence);
        }
    }

    pub(crate) fn into_vec(self) -> Vec<String> {
        self.0
    }
}
