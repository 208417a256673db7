//! The names of a vocabulary's control tokens, found in text.

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value;

use crate::Error;

/// Unicode keeps these two code points free for a program's own use; where a caller has one it is marked like a name.
pub(crate) const OPEN: char = '\u{FDD0}';

pub(crate) const CLOSE: char = '\u{FDD1}';

/// The names of a vocabulary's control tokens, to be found in text.
pub(crate) struct SpecialTokenNames {
    search: AhoCorasick,
    sorted: Vec<Box<str>>,
    longest: usize,
}

impl SpecialTokenNames {
    /// # Errors
    /// A vocabulary whose names are too long together for a search.
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

    /// Where a name begins that the text ends within: the next part of a message may complete it.
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

    /// What a caller wrote, with marks around names of control tokens; `None` where there is none to mark.
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

/// Calls `visit` with every string of a value in order, keys of objects included: a template may write those too.
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
