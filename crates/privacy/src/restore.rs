//! Values put back into answers, whole or as they stream.

use crate::placeholder::{BESIDE, Dictionary, End, Look, Next, next};
use std::fmt;
use std::sync::Arc;

/// How values are written where they are put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// As they were: for text.
    None,
    /// With JSON's escapes, without quotes: for pieces of JSON inside a string, such as a tool call's arguments.
    Json,
}

/// The placeholders of a request, sorted by name.
pub(crate) struct Table {
    values: Vec<(String, String)>,
    longest: usize,
}

impl Table {
    pub(crate) fn new(values: &[(String, String)]) -> Self {
        let mut values = values.to_vec();
        values.sort_unstable();
        let longest = values.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        Table { values, longest }
    }

    fn value(&self, name: &[u8]) -> Option<&str> {
        let at = self.values.binary_search_by(|(known, _)| known.as_bytes().cmp(name)).ok()?;
        Some(&self.values[at].1)
    }
}

impl Dictionary for Table {
    fn look(&self, name: &[u8]) -> Look {
        let at = self.values.partition_point(|(known, _)| known.as_bytes() < name);
        match self.values.get(at) {
            Some((known, _)) if known.as_bytes() == name => Look::Whole,
            Some((known, _)) if known.as_bytes().starts_with(name) => Look::Prefix,
            _ => Look::Never,
        }
    }

    fn longest(&self) -> usize {
        self.longest
    }
}

/// Puts values back into a stream of text.
///
/// Restored are the request's own placeholders: `<EMAIL_1>` in any case, with brackets escaped for HTML (`&lt;EMAIL_1&gt;`) or
/// JSON (`\u003cEMAIL_1\u003e`), and `EMAIL_1` without brackets, in capitals, where no letter, digit or underscore stands
/// beside it. Not restored: numbers that were not given out, names that were translated or have spaces, and a placeholder
/// in small letters without brackets.
///
/// Text is held back only while it may become a placeholder: at most [`longest`](Self::longest) bytes.
pub struct Restorer {
    table: Arc<Table>,
    escape: Escape,
    held: String,
    /// The byte before what is held, 0 for none.
    before: u8,
}

impl fmt::Debug for Restorer {
    /// Sizes; never the values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (values, held) = (self.table.values.len(), self.held.len());
        f.debug_struct("Restorer").field("values", &values).field("held", &held).finish_non_exhaustive()
    }
}

impl Restorer {
    pub(crate) fn new(table: Arc<Table>, escape: Escape) -> Self {
        Restorer { table, escape, held: String::new(), before: 0 }
    }

    /// Takes a piece of the stream; returns what can go on.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        self.release(End::Open)
    }

    /// Ends the stream; returns what was held back. The restorer can then serve another one.
    pub fn finish(&mut self) -> String {
        let out = self.release(End::Final);
        self.before = 0;
        out
    }

    /// Bytes that are held back now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Bytes that can be held back at most: the longest placeholder with escaped brackets.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.table.longest + BESIDE
    }

    fn release(&mut self, end: End) -> String {
        if self.table.values.is_empty() {
            return std::mem::take(&mut self.held);
        }
        let mut out = String::with_capacity(self.held.len());
        let mut from = 0;
        loop {
            let text = &self.held[from..];
            match next(text.as_bytes(), self.before, end, &*self.table) {
                Next::Found(at, length, name) => {
                    out.push_str(&text[..at]);
                    match (self.table.value(&name), self.escape) {
                        (Some(value), Escape::Json) => out.push_str(&escaped(value)),
                        (Some(value), Escape::None) => out.push_str(value),
                        (None, _) => out.push_str(&text[at..at + length]),
                    }
                    self.before = text.as_bytes()[at + length - 1];
                    from += at + length;
                }
                Next::Wait(at) => {
                    out.push_str(&text[..at]);
                    self.before = at.checked_sub(1).map_or(self.before, |at| text.as_bytes()[at]);
                    self.held.drain(..from + at);
                    return out;
                }
            }
        }
    }
}

/// A text with JSON's escapes, without quotes.
fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
