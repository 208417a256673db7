//! Rendered prompts, in which control tokens of the template are distinguished from the same text written by users.
//!
//! A template renders messages to one text, and a user may write `<|im_end|>` in a message. So that only the template's
//! becomes a control token (no prompt injection), names of control tokens in user strings are enclosed in marks before
//! the template runs, and the marks are removed from its output. Strings without such names are not changed.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::{Map, Value};

use crate::names::{CLOSE, OPEN, SpecialTokenNames};
use crate::{EncodeError, Error, Special, TokenLimit, Tokenizer};

/// A prompt that a chat template rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The text that the model continues.
    pub text: String,
    /// Byte ranges of the text, ascending, in which users wrote names of control tokens; they are encoded as plain
    /// text.
    pub plain: Vec<Range<usize>>,
    /// Warnings about messages that were changed to fit the template, one sentence each.
    pub warnings: Vec<String>,
}

impl From<String> for Prompt {
    fn from(text: String) -> Prompt {
        Prompt { text, plain: Vec::new(), warnings: Vec::new() }
    }
}

/// The input of a template, with marks around names of control tokens.
pub(crate) struct MarkedInput<'a> {
    pub(crate) messages: Cow<'a, [Value]>,
    pub(crate) tools: Option<Cow<'a, [Value]>>,
    pub(crate) extra: Cow<'a, Map<String, Value>>,
}

impl<'a> MarkedInput<'a> {
    pub(crate) fn marked(
        names: &SpecialTokenNames,
        messages: &'a [Value],
        tools: Option<&'a [Value]>,
        extra: &'a Map<String, Value>,
    ) -> MarkedInput<'a> {
        let list = |values: &'a [Value]| names.mark(values).map_or(Cow::Borrowed(values), Cow::Owned);
        let extra = match names.mark(&[Value::Object(extra.clone())]).as_deref() {
            Some([Value::Object(marked)]) => Cow::Owned(marked.clone()),
            _ => Cow::Borrowed(extra),
        };
        MarkedInput { messages: list(messages), tools: tools.map(list), extra }
    }
}

/// Removes the marks from a template's output, and records the marked ranges. Unpaired marks are dropped.
pub(crate) fn unmarked(text: String) -> Prompt {
    if !text.contains([OPEN, CLOSE]) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut plain: Vec<Range<usize>> = Vec::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find([OPEN, CLOSE]) {
        out.push_str(&rest[..at]);
        let opened = rest[at..].starts_with(OPEN);
        rest = &rest[at + OPEN.len_utf8()..];
        // A marked range is a name or a mark itself, so its first character always belongs to it.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end = rest[first..].find([OPEN, CLOSE]).map(|end| first + end);
        if let Some(end) = end.filter(|end| opened && rest[*end..].starts_with(CLOSE)) {
            let start = out.len();
            out.push_str(&rest[..end]);
            rest = &rest[end + CLOSE.len_utf8()..];
            match plain.last_mut() {
                Some(last) if last.end == start => last.end = out.len(),
                _ => plain.push(start..out.len()),
            }
        }
    }
    out.push_str(rest);
    Prompt { text: out, plain, warnings: Vec::new() }
}

impl Tokenizer {
    /// Encodes a rendered prompt. Names of control tokens become control tokens where the template wrote them. Where a
    /// user wrote one, the text between the two neighbouring control tokens is encoded as plain text.
    ///
    /// # Errors
    /// [`Error::Encode`] if the pipeline refuses the text.
    pub fn encode_prompt(&self, prompt: &Prompt) -> Result<Vec<u32>, Error> {
        self.encode_prompt_within(prompt, &TokenLimit::NONE).map_err(|e| Error::Encode(e.to_string()))
    }

    /// As [`Tokenizer::encode_prompt`], up to a limit.
    ///
    /// # Errors
    /// The text has more tokens than the limit, or the pipeline refuses it.
    pub fn encode_prompt_within(
        &self,
        prompt: &Prompt,
        limit: &TokenLimit<'_>,
    ) -> Result<Vec<u32>, EncodeError> {
        let Prompt { text, plain, .. } = prompt;
        if plain.is_empty() {
            return self.encode_within(text, Special::Parse, false, limit);
        }
        self.may_fit(text, limit)?;
        let mut callers = plain.iter().peekable();
        let mut tokens = Vec::new();
        // `text[done..from]` has no user-written name, and ends with the last control token of the template.
        let (mut done, mut from) = (0, 0);
        let ends = self.names().find(text).chain(std::iter::once(text.len()..text.len()));
        for name in ends {
            let overlaps = |range: &&Range<usize>| range.start < name.end && name.start < range.end;
            if plain[plain.partition_point(|range| range.end <= name.start)..]
                .first()
                .is_some_and(|r| overlaps(&r))
            {
                continue;
            }
            let mut by_caller = false;
            while callers.next_if(|range| range.end <= name.start).is_some() {
                by_caller = true;
            }
            if by_caller {
                self.add(&text[done..from], Special::Parse, limit, &mut tokens)?;
                self.add(&text[from..name.start], Special::Plain, limit, &mut tokens)?;
                done = name.start;
            }
            from = name.end;
        }
        self.add(&text[done..], Special::Parse, limit, &mut tokens)?;
        Ok(tokens)
    }

    /// Encodes a part of a text, and appends its tokens within the limit of the whole.
    fn add(
        &self,
        text: &str,
        special: Special,
        limit: &TokenLimit<'_>,
        tokens: &mut Vec<u32>,
    ) -> Result<(), EncodeError> {
        let rest = TokenLimit {
            max_tokens: limit.max_tokens.saturating_sub(tokens.len()),
            should_stop: limit.should_stop,
        };
        let more = self.encode_within(text, special, false, &rest);
        tokens.extend(more.map_err(|error| error.after(tokens.len()))?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{MarkedInput, Prompt, SpecialTokenNames, unmarked};
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    fn names() -> SpecialTokenNames {
        SpecialTokenNames::new(["<s>", "<|end|>", "<|end|>x"].into_iter()).expect("three names")
    }

    /// A template that copies all strings, one after the other.
    fn copied(value: &Value) -> Prompt {
        let value = std::slice::from_ref(value);
        let marked = names().mark(value).unwrap_or_else(|| value.to_vec());
        let mut text = String::new();
        marked.iter().for_each(|value| crate::names::strings(value, &mut |part| text.push_str(part)));
        unmarked(text)
    }

    #[test]
    fn names_in_strings_keys_and_across_parts_are_plain() {
        let prompt = copied(&json!([{"content": "a<s>b"}, "<|e", "nd|>", "é"]));
        assert_eq!(prompt.text, "contenta<s>b<|end|>é");
        assert_eq!(prompt.plain, [8..11, 12..15]);
        assert_eq!(copied(&json!({"<|end|>": "a<s>"})).plain, [0..7, 8..11]);
        assert_eq!(copied(&json!(["no names < s>"])), "no names < s>".to_owned().into());
    }

    #[test]
    fn nothing_is_copied_where_nothing_is_marked() {
        let (messages, extra) = ([json!({"role": "user"})], Map::new());
        let names = names();
        let written = MarkedInput::marked(&names, &messages, None, &extra);
        assert!(matches!(written.messages, std::borrow::Cow::Borrowed(_)));
    }

    #[test]
    fn marks_without_partner_are_dropped() {
        assert_eq!(unmarked("a\u{FDD0}b".into()).text, "ab");
        assert_eq!(unmarked("a\u{FDD1}b".into()).text, "ab");
        let cut = unmarked("a\u{FDD0}b\u{FDD0}<s>\u{FDD1}".into());
        assert_eq!(cut.text, "ab<s>");
        assert_eq!(cut.plain.first(), Some(&(2..5)));
    }

    proptest! {
        #[test]
        fn any_text_comes_through_as_it_was(parts in prop::collection::vec("(<s>|<\\|end\\|>|[a<|\u{FDD0}\u{FDD1}é])*", 0..5)) {
            let prompt = copied(&json!(parts));
            prop_assert_eq!(&prompt.text, &parts.concat());
            let touched = |name: &std::ops::Range<usize>| {
                prompt.plain.iter().any(|range| range.start < name.end && name.start < range.end)
            };
            prop_assert!(names().find(&prompt.text).all(|name| touched(&name)));
        }
    }
}
