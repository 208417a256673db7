//! Searches text for the names of control tokens, and marks those that users wrote.

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value;

use crate::Error;

/// The marks around a control token's name: Unicode noncharacters, reserved for internal use. A mark in a user's text
/// is itself marked like a name.
pub(crate) const OPEN: char = '\u{FDD0}';

pub(crate) const CLOSE: char = '\u{FDD1}';

/// The names of a vocabulary's control tokens, prepared for search.
pub(crate) struct SpecialTokenNames {
    search: AhoCorasick,
    sorted: Vec<Box<str>>,
    longest: usize,
}

impl SpecialTokenNames {
    /// Builds the search automaton.
    ///
    /// # Errors
    /// The names are too long in total.
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Result<SpecialTokenNames, Error> {
        let marks = [OPEN, CLOSE].map(|mark| mark.to_string().into());
        let mut sorted: Vec<Box<str>> =
            names.filter(|name| !name.is_empty()).map(Into::into).chain(marks).collect();
        sorted.sort_unstable();
        let search =
            AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(sorted.iter().map(|n| &**n));
        let search = search.map_err(|e| Error::malformed("the names of control tokens", e.to_string()))?;
        let longest = sorted.iter().map(|name| name.len()).max().unwrap_or(0);
        Ok(SpecialTokenNames { search, sorted, longest })
    }

    pub(crate) fn find<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        self.search.find_iter(text).map(|found| found.range())
    }

    /// The offset at which the text ends with the beginning of a name, which the next part of a message may complete.
    pub(crate) fn begun(&self, text: &str) -> Option<usize> {
        let from = text.len().saturating_sub(self.longest);
        let starts = text.char_indices().map(|(at, _)| at).skip_while(|at| *at < from);
        let mut tails = starts.map(|at| (at, &text[at..]));
        tails
            .find(|(_, tail)| {
                let next = self.sorted.partition_point(|name| **name < **tail);
                self.sorted.get(next).is_some_and(|name| name.starts_with(tail))
            })
            .map(|(at, _)| at)
    }

    /// Copies `written` with marks around names of control tokens; `None` if there are none.
    pub(crate) fn mark(&self, written: &[Value]) -> Option<Vec<Value>> {
        let mut any = false;
        let mut see = |text: &str| any |= self.find(text).next().is_some() || self.begun(text).is_some();
        written.iter().for_each(|value| strings(value, &mut see));
        any.then(|| written.iter().map(|value| self.marked(value)).collect())
    }

    pub(crate) fn marked(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.marked_text(text)),
            Value::Array(items) => items.iter().map(|item| self.marked(item)).collect(),
            Value::Object(fields) => {
                let pairs = fields.iter().map(|(key, field)| (self.marked_text(key), self.marked(field)));
                Value::Object(pairs.collect())
            }
            other => other.clone(),
        }
    }

    pub(crate) fn marked_text(&self, text: &str) -> String {
        let mut marked = String::with_capacity(text.len() + 2 * OPEN.len_utf8());
        let mut done = 0;
        let mut wrap = |name: Range<usize>| {
            marked.push_str(&text[done..name.start]);
            marked.push(OPEN);
            marked.push_str(&text[name.clone()]);
            marked.push(CLOSE);
            done = name.end;
        };
        let mut end = 0;
        for name in self.find(text) {
            end = name.end;
            wrap(name);
        }
        if let Some(begun) = self.begun(&text[end..]) {
            wrap(end + begun..text.len());
        }
        marked.push_str(&text[done..]);
        marked
    }
}

/// Calls `visit` with every string of a value in order, including object keys, which templates may print too.
pub(crate) fn strings(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, visit)),
        Value::Object(fields) => {
            for (key, field) in fields {
                visit(key);
                strings(field, visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
