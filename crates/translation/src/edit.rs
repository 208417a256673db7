//! Edits of a request's top-level fields that leave every other byte as it was.

use std::ops::Range;

use serde_json::Value;

use crate::Dialect;
use crate::head::Head;
use crate::object::Object;

/// Changes of a request's body.
#[derive(Debug, Clone, Copy, Default)]
pub struct Edit<'a> {
    /// The model's new name. Without effect for Gemini, which has it in the path.
    pub model: Option<&'a str>,
    /// Sets `stream_options.include_usage`. Only the chat dialect's streams need to be asked.
    pub include_usage: bool,
    /// Sets `cache_salt` (vLLM): answers are computed from cached prefixes of the same salt only.
    pub cache_salt: Option<&'a str>,
    /// Further top-level fields. A field that is there is replaced; `null` removes it.
    pub extra: &'a [(&'a str, Value)],
}

/// A range of the body and what it becomes.
struct Patch {
    range: Range<usize>,
    text: Vec<u8>,
}

impl Head {
    /// The body with the changes. `body` is the one that was read; every byte outside the changed fields is kept.
    pub fn rewrite(&self, body: &[u8], edit: &Edit<'_>) -> Vec<u8> {
        let mut changes: Vec<(&str, Option<Vec<u8>>)> = Vec::new();
        if let Some(model) = edit.model
            && self.dialect != Dialect::Gemini
        {
            changes.push(("model", Some(json(&Value::from(model)))));
        }
        if edit.include_usage && self.dialect == Dialect::OpenAiChat && !self.include_usage {
            changes.push(("stream_options", Some(self.stream_options(body))));
        }
        if let Some(salt) = edit.cache_salt {
            changes.push(("cache_salt", Some(json(&Value::from(salt)))));
        }
        for (name, value) in edit.extra {
            changes.push((name, if value.is_null() { None } else { Some(json(value)) }));
        }
        // The last change of a field counts.
        let mut seen: Vec<&str> = Vec::new();
        changes.reverse();
        changes.retain(|(name, _)| {
            let first = !seen.contains(name);
            seen.push(name);
            first
        });
        changes.reverse();
        self.apply(body, changes)
    }

    /// `stream_options` with usage asked for, its other fields kept.
    fn stream_options(&self, body: &[u8]) -> Vec<u8> {
        let asked = b"{\"include_usage\":true}".to_vec();
        let Some(raw) = self.raw_field(body, "stream_options").filter(|raw| raw.first() == Some(&b'{'))
        else {
            return asked;
        };
        let Ok(object) = Object::walk(raw, "stream_options.") else { return asked };
        if let Some(place) = object.range("include_usage") {
            return patched(raw, vec![Patch { range: place.clone(), text: b"true".to_vec() }]);
        }
        let empty = raw.iter().all(|byte| byte.is_ascii_whitespace() || matches!(byte, b'{' | b'}'));
        let text: &[u8] = if empty { b"\"include_usage\":true" } else { b"\"include_usage\":true," };
        patched(raw, vec![Patch { range: 1..1, text: text.to_vec() }])
    }

    fn apply(&self, body: &[u8], changes: Vec<(&str, Option<Vec<u8>>)>) -> Vec<u8> {
        let mut patches = Vec::new();
        let mut added = Vec::new();
        let mut removed = Vec::new();
        for (name, text) in changes {
            match (self.fields.iter().position(|field| field.name == name), text) {
                (Some(at), Some(text)) => patches.push(Patch { range: self.fields[at].value.clone(), text }),
                (Some(at), None) => removed.push(at),
                (None, Some(text)) => added.push((name, text)),
                (None, None) => {}
            }
        }
        removed.sort_unstable();
        let mut kept_before = false;
        for at in 0..self.fields.len() {
            if !removed.contains(&at) {
                kept_before = true;
                continue;
            }
            patches.push(Patch { range: self.with_comma(at, kept_before), text: Vec::new() });
        }
        let left = self.fields.len() - removed.len();
        if !added.is_empty() {
            let end = body.iter().rposition(|byte| *byte == b'}').unwrap_or(body.len());
            let mut text = Vec::new();
            for (at, (name, value)) in added.into_iter().enumerate() {
                if left > 0 || at > 0 {
                    text.push(b',');
                }
                text.extend(json(&Value::from(name)));
                text.push(b':');
                text.extend(value);
            }
            patches.push(Patch { range: end..end, text });
        }
        patched(body, patches)
    }

    /// A field with the comma that goes with it: the one before it if a field before it stays, else the one after it.
    fn with_comma(&self, at: usize, kept_before: bool) -> Range<usize> {
        let field = &self.fields[at];
        let end = |at: usize| self.fields.get(at).map(|field| field.value.end);
        match (kept_before, self.fields.get(at + 1)) {
            (true, _) => at.checked_sub(1).and_then(end).unwrap_or(field.key.start)..field.value.end,
            (false, Some(next)) => field.key.start..next.key.start,
            (false, None) => field.key.start..field.value.end,
        }
    }
}

fn json(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// The text with patches, which do not overlap.
fn patched(text: &[u8], mut patches: Vec<Patch>) -> Vec<u8> {
    patches.sort_by_key(|patch| patch.range.start);
    let longer: usize = patches.iter().map(|patch| patch.text.len()).sum();
    let mut out = Vec::with_capacity(text.len() + longer);
    let mut at = 0;
    for patch in patches {
        out.extend_from_slice(text.get(at..patch.range.start).unwrap_or_default());
        out.extend_from_slice(&patch.text);
        at = patch.range.end;
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
    out
}
