//! Why a line has no answer.

use serde::{Deserialize, Serialize};

/// Why a line has no answer: a word for programs and a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) code: String,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Fault {
        Fault { code: code.to_owned(), message: message.into() }
    }
}

/// The first characters of a text from outside, for messages.
pub(crate) fn shortened(text: &str) -> String {
    const SHOWN: usize = 80;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A list of names for messages, cut after 20.
pub(crate) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 20;
    let mut names: Vec<String> = names.take(SHOWN + 1).map(shortened).collect();
    if names.len() > SHOWN {
        names[SHOWN] = "…".to_owned();
    }
    names.join(", ")
}
