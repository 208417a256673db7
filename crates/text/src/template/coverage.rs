//! Checks that a prompt contains the texts of a conversation.

use std::cell::OnceCell;

use serde_json::Value;

/// The most missing pieces before the search ends: each costs a scan of the prompt.
const MAX_MISSING: usize = 64;

/// A search in a prompt for texts that are mostly in the order of the prompt.
pub(super) struct PromptSearch<'a> {
    prompt: &'a str,
    folded: OnceCell<String>,
    /// Offset of the end of the last found text, in bytes.
    at: usize,
    missing: usize,
}

impl<'a> PromptSearch<'a> {
    pub(super) fn new(prompt: &'a str) -> PromptSearch<'a> {
        PromptSearch { prompt, folded: OnceCell::new(), at: 0, missing: 0 }
    }

    /// Whether the prompt contains `text`: trimmed, as JSON, or at least three quarters of its words in order, ignoring
    /// case. Templates trim and escape text, and remove marks such as `/no_think`.
    pub(super) fn says(&mut self, text: &str) -> bool {
        let text = text.trim();
        text.is_empty() || self.verbatim(text) || self.as_json(text) || self.words(text)
    }

    fn verbatim(&mut self, text: &str) -> bool {
        let ahead = self.prompt.get(self.at..).and_then(|rest| rest.find(text)).map(|at| self.at + at);
        let found = ahead.or_else(|| self.prompt.find(text));
        if let Some(at) = found {
            self.at = at + text.len();
        }
        found.is_some()
    }

    fn as_json(&mut self, text: &str) -> bool {
        let json = Value::from(text).to_string();
        let inner = json.get(1..json.len().saturating_sub(1)).unwrap_or_default();
        inner != text && self.verbatim(inner)
    }

    fn words(&mut self, text: &str) -> bool {
        let folded = self.folded.get_or_init(|| self.prompt.to_lowercase());
        let text = text.to_lowercase();
        let (mut at, mut found, mut all) = (0, 0, 0);
        for word in text.split_whitespace() {
            all += 1;
            match folded[at..].find(word) {
                Some(ahead) => {
                    at += ahead + word.len();
                    found += 1;
                }
                None => {
                    self.missing += 1;
                    if self.missing > MAX_MISSING {
                        return false;
                    }
                }
            }
        }
        found > 0 && found * 4 >= all * 3
    }
}

#[cfg(test)]
mod tests {
    use super::PromptSearch;

    #[test]
    fn texts_are_found_as_templates_write_them() {
        let mut search = PromptSearch::new(
            "<user>one two\n<tool>\"a \\\"b\\\"\\nc\"<user>THREE four five six<user>one two",
        );
        for text in
            [" one two\n", "a \"b\"\nc", "three four five six", "/no_think three four five", "", "one two"]
        {
            assert!(search.says(text), "{text:?}");
        }
        for text in ["seven", "three no nothing six", "one two three four five six seven eight nine ten"] {
            assert!(!search.says(text), "{text:?}");
        }
    }
}
