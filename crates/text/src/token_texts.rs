//! The tokens as the vocabulary writes them.

use crate::tables::{Spans, Table};

/// The text of each token; an id may have none.
pub(crate) enum TokenTexts {
    /// From a file, `[vocab]`.
    Owned(Vec<Option<String>>),
    /// From a packed tokenizer: texts, and a byte for each id, 0 for one without a token.
    Packed { spans: Spans, present: Table },
}

impl TokenTexts {
    /// The text of a token.
    pub(crate) fn get(&self, id: u32) -> Option<&str> {
        let at = id as usize;
        match self {
            TokenTexts::Owned(texts) => texts.get(at)?.as_deref(),
            TokenTexts::Packed { spans, present } => {
                present.bytes().get(at).filter(|present| **present != 0)?;
                std::str::from_utf8(spans.get(at)?).ok()
            }
        }
    }

    /// The highest id plus one.
    pub(crate) fn len(&self) -> usize {
        match self {
            TokenTexts::Owned(texts) => texts.len(),
            TokenTexts::Packed { present, .. } => present.bytes().len(),
        }
    }
}
