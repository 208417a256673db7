//! A pass over JSON text that checks it and finds places, without building values.
//!
//! Accepts exactly what `serde_json` accepts when it ignores a value (RFC 8259), except that nesting is limited to
//! [`MAX_DEPTH`] levels. The caller has checked that the text is UTF-8.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// Most levels of nesting, that of `serde_json`.
pub(crate) const MAX_DEPTH: u32 = 127;

/// A place where the text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotJson {
    /// Byte offset.
    pub(crate) at: usize,
    /// What is missing or wrong there.
    pub(crate) what: &'static str,
}

impl fmt::Display for NotJson {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} at byte {}", self.what, self.at)
    }
}

type Result<T> = std::result::Result<T, NotJson>;

/// A position in JSON text.
#[derive(Debug, Clone)]
pub(crate) struct Skim<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: u32,
    /// Whether the open containers are objects, the innermost in the lowest bit.
    objects: u128,
}

impl<'a> Skim<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Skim<'a> {
        Skim { bytes, at: 0, depth: 0, objects: 0 }
    }

    /// The bytes of a range that this pass has returned.
    pub(crate) fn slice(&self, range: &Range<usize>) -> &'a [u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }

    /// The error at the present place.
    pub(crate) fn error<T>(&self, what: &'static str) -> Result<T> {
        Err(NotJson { at: self.at, what })
    }

    /// The byte offset.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// The first byte of the next value.
    pub(crate) fn next_byte(&mut self) -> Option<u8> {
        self.skip_space();
        self.peek()
    }

    /// Checks that only white space is left.
    pub(crate) fn end(&mut self) -> Result<()> {
        match self.next_byte() {
            None => Ok(()),
            Some(_) => self.error("trailing characters"),
        }
    }

    fn push(&mut self, object: bool) -> Result<()> {
        if self.depth == MAX_DEPTH {
            return self.error("nesting deeper than 127 levels");
        }
        self.depth += 1;
        self.objects = (self.objects << 1) | u128::from(object);
        self.at += 1;
        Ok(())
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.objects >>= 1;
        self.at += 1;
    }

    /// Skips a string; its range includes the quotes.
    pub(crate) fn string(&mut self) -> Result<Range<usize>> {
        let from = self.at;
        if self.peek() != Some(b'"') {
            return self.error("a string is missing");
        }
        self.at += 1;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let plain = rest.iter().position(|byte| SPECIAL[usize::from(*byte)]);
            let Some(plain) = plain else {
                self.at = self.bytes.len();
                return self.error("a string does not end");
            };
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(from..self.at);
                }
                Some(b'\\') => self.escape()?,
                _ => return self.error("a control character stands in a string"),
            }
        }
    }

    fn escape(&mut self) -> Result<()> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let digits = self.bytes.get(self.at + 2..self.at + 6).unwrap_or_default();
                if digits.len() < 4 || !digits.iter().all(u8::is_ascii_hexdigit) {
                    return self.error("an escape is invalid");
                }
                self.at += 6;
            }
            _ => return self.error("an escape is invalid"),
        }
        Ok(())
    }

    fn literal(&mut self, word: &'static [u8]) -> Result<()> {
        if !self.bytes.get(self.at..).unwrap_or_default().starts_with(word) {
            return self.error("a value is invalid");
        }
        self.at += word.len();
        Ok(())
    }

    fn digits(&mut self) -> Result<()> {
        let from = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == from { self.error("a number is invalid") } else { Ok(()) }
    }

    fn number(&mut self) -> Result<()> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
            if self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                return self.error("a number is invalid");
            }
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn key_and_colon(&mut self) -> Result<Range<usize>> {
        self.skip_space();
        let key = self.string()?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return self.error("a colon is missing");
        }
        self.at += 1;
        Ok(key)
    }

    /// Skips one value of any kind.
    pub(crate) fn skip(&mut self) -> Result<()> {
        self.value().map(|_| ())
    }

    /// Skips one value of any kind; its range has no white space around it.
    pub(crate) fn value(&mut self) -> Result<Range<usize>> {
        self.skip_space();
        let (from, outer) = (self.at, self.depth);
        loop {
            self.skip_space();
            let opened = match self.peek() {
                Some(b'"') => self.string().map(|_| false)?,
                Some(b'{') => {
                    self.push(true)?;
                    let empty = self.next_byte() == Some(b'}');
                    if empty {
                        self.pop();
                    } else {
                        self.key_and_colon()?;
                    }
                    !empty
                }
                Some(b'[') => {
                    self.push(false)?;
                    let empty = self.next_byte() == Some(b']');
                    if empty {
                        self.pop();
                    }
                    !empty
                }
                Some(b'-' | b'0'..=b'9') => self.number().map(|()| false)?,
                Some(b't') => self.literal(b"true").map(|()| false)?,
                Some(b'f') => self.literal(b"false").map(|()| false)?,
                Some(b'n') => self.literal(b"null").map(|()| false)?,
                _ => return self.error("a value is missing"),
            };
            if !opened && self.close(outer)? {
                return Ok(from..self.at);
            }
        }
    }

    /// Closes what ends after a value, down to the depth `outer`; whether that is reached.
    fn close(&mut self, outer: u32) -> Result<bool> {
        while self.depth > outer {
            self.skip_space();
            match (self.objects & 1 == 1, self.peek()) {
                (true, Some(b',')) => {
                    self.at += 1;
                    self.key_and_colon()?;
                    return Ok(false);
                }
                (false, Some(b',')) => {
                    self.at += 1;
                    return Ok(false);
                }
                (true, Some(b'}')) | (false, Some(b']')) => self.pop(),
                _ => return self.error("a comma or closing bracket is missing"),
            }
        }
        Ok(true)
    }

    /// Walks over an object. `each` gets the key's range, with quotes, and consumes the value.
    pub(crate) fn object(
        &mut self,
        mut each: impl FnMut(&mut Self, &Range<usize>) -> Result<()>,
    ) -> Result<()> {
        if self.next_byte() != Some(b'{') {
            return self.error("an object is missing");
        }
        self.push(true)?;
        if self.next_byte() == Some(b'}') {
            self.pop();
            return Ok(());
        }
        loop {
            let key = self.key_and_colon()?;
            each(self, &key)?;
            match self.next_byte() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.pop();
                    return Ok(());
                }
                _ => return self.error("a comma or closing bracket is missing"),
            }
        }
    }

    /// Walks over an array. `each` gets the element's index and consumes the value.
    pub(crate) fn array(&mut self, mut each: impl FnMut(&mut Self, usize) -> Result<()>) -> Result<()> {
        if self.next_byte() != Some(b'[') {
            return self.error("an array is missing");
        }
        self.push(false)?;
        if self.next_byte() == Some(b']') {
            self.pop();
            return Ok(());
        }
        let mut index = 0;
        loop {
            each(self, index)?;
            index += 1;
            match self.next_byte() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.pop();
                    return Ok(());
                }
                _ => return self.error("a comma or closing bracket is missing"),
            }
        }
    }

    /// A key's text: borrowed unless the key has escapes.
    pub(crate) fn text(&self, string: &Range<usize>) -> Cow<'a, str> {
        text(self.slice(string))
    }
}

/// The text of a JSON string with its quotes; a lone surrogate becomes U+FFFD.
pub(crate) fn text(string: &[u8]) -> Cow<'_, str> {
    let inner = string.get(1..string.len().saturating_sub(1)).unwrap_or_default();
    if memchr::memchr(b'\\', inner).is_none() {
        return String::from_utf8_lossy(inner);
    }
    match serde_json::from_slice::<String>(string) {
        Ok(text) => Cow::Owned(text),
        Err(_) => Cow::Owned(lossy(inner)),
    }
}

/// Unescapes a string that has a lone surrogate, piece by piece.
fn lossy(inner: &[u8]) -> String {
    let mut out = String::new();
    let mut rest = inner;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.push_str(&String::from_utf8_lossy(rest.get(..at).unwrap_or_default()));
        let length = |rest: &[u8]| if rest.get(1) == Some(&b'u') { 6 } else { 2 };
        let escape = rest.get(at..).unwrap_or_default();
        let one = length(escape).min(escape.len());
        let pair = (one + 6).min(escape.len());
        let decode = |to: usize| {
            let quoted = [b"\"", escape.get(..to).unwrap_or_default(), b"\""].concat();
            serde_json::from_slice::<String>(&quoted).ok()
        };
        let surrogates = escape.get(one..).is_some_and(|next| next.starts_with(b"\\u"));
        let (text, used) = match decode(one) {
            Some(text) => (Some(text), one),
            None if surrogates && decode(pair).is_some() => (decode(pair), pair),
            None => (None, one),
        };
        out.push_str(text.as_deref().unwrap_or("\u{fffd}"));
        rest = escape.get(used..).unwrap_or_default();
    }
    out.push_str(&String::from_utf8_lossy(rest));
    out
}

/// Bytes that end the plain part of a string: quote, backslash, control characters.
const SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = true;
        byte += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    use super::*;

    fn accepted(bytes: &[u8]) -> bool {
        let mut skim = Skim::new(bytes);
        skim.value().and_then(|_| skim.end()).is_ok()
    }

    #[test]
    fn ranges_are_those_of_keys_and_values() {
        let body = br#" { "a" : [1, {"b":"x\"y"}] ,"c":null } "#;
        let mut skim = Skim::new(body);
        let mut seen = Vec::new();
        skim.object(|skim, key| {
            let value = skim.value()?;
            let value = String::from_utf8_lossy(skim.slice(&value)).into_owned();
            seen.push((skim.text(key).into_owned(), value));
            Ok(())
        })
        .unwrap();
        skim.end().unwrap();
        assert_eq!(seen, [("a".into(), r#"[1, {"b":"x\"y"}]"#.into()), ("c".into(), "null".to_owned())]);
    }

    #[test]
    fn nesting_is_limited_and_lone_surrogates_are_replaced() {
        let nested = |n: usize| [b"[".repeat(n), b"]".repeat(n)].concat();
        assert!(accepted(&nested(127)));
        assert!(!accepted(&nested(128)) && !accepted(&nested(1_000_000)));
        assert_eq!(text(br#""a\ud800b\ud83d\ude00\n""#), "a\u{fffd}b\u{1f600}\n");
        assert_eq!(text(br#""\ud800\ud83d\ude00""#), "\u{fffd}\u{1f600}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn accepts_what_serde_json_accepts(bytes in "[\\[\\]{}:,\"\\\\/bu0123456789aefEn.+\\- truls]{0,24}") {
            let truth = serde_json::from_str::<IgnoredAny>(&bytes).is_ok();
            prop_assert_eq!(accepted(bytes.as_bytes()), truth, "{}", bytes);
        }

        #[test]
        fn accepts_damaged_json_as_serde_json_does(at in 0_usize..90, byte in 0_u8..128) {
            let mut body = br#"{"a":[1,-2.5e+3,true,false,null,{"b":"x\n\u00e9"},[],{}],"c":{"d":"","e":[[0.0]]} }"#.to_vec();
            if let Some(place) = body.get_mut(at) { *place = byte }
            let truth = serde_json::from_slice::<IgnoredAny>(&body).is_ok();
            prop_assert_eq!(accepted(&body), truth, "{}", String::from_utf8_lossy(&body));
        }
    }
}
