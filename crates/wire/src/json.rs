//! The JSON parser of request bodies, shared by all endpoints.
//!
//! Stricter than `serde_json` in one way: a duplicate key in an object is an error. Parsers disagree on which of the
//! two counts, so a proxy that checks the one may let through the other.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::error::{Fault, quote};

/// Number of keys of an object that are searched linearly; further ones are kept in a hash set.
const MAX_LINEAR_KEYS: usize = 16;
/// The byte order mark of UTF-8, which some editors write.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Parses a body. A byte order mark is skipped.
///
/// # Errors
/// Invalid JSON, with line and column, and a hint for common mistakes: `NaN`, single quotes, a compressed body.
pub fn read(body: &[u8]) -> Result<Value, Fault> {
    let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    let value = serde_json::from_slice(body).map_err(|error| Fault::not_json(explain(body, &error)))?;
    let mut reader = serde_json::Deserializer::from_slice(body);
    let mut seen = Vec::new();
    DuplicateKeys { seen: &mut seen }
        .deserialize(&mut reader)
        .map_err(|error| Fault::not_json(error.to_string()))?;
    Ok(value)
}

/// The error message, with a hint for common mistakes.
fn explain(body: &[u8], error: &serde_json::Error) -> String {
    let said = error.to_string();
    if body.iter().all(u8::is_ascii_whitespace) {
        return format!("it is empty ({said})");
    }
    if said.starts_with("recursion limit exceeded") {
        let place = said.trim_start_matches("recursion limit exceeded");
        return format!("it is nested deeper than 128 levels{place}");
    }
    match hint(body, error) {
        Some(hint) => format!("{said}: {hint}"),
        None => said,
    }
}

fn hint(body: &[u8], error: &serde_json::Error) -> Option<&'static str> {
    if body.starts_with(&[0x1f, 0x8b]) {
        return Some("it looks like gzip, which needs the header content-encoding: gzip");
    }
    if body.starts_with(&[0xff, 0xfe]) || body.starts_with(&[0xfe, 0xff]) {
        return Some("it looks like UTF-16; JSON is sent as UTF-8");
    }
    let line = body.split(|byte| *byte == b'\n').nth(error.line().checked_sub(1)?)?;
    let from = error.column().saturating_sub(2).min(line.len());
    let near = line.get(from..)?;
    // The error position is the first wrong byte or the one after it.
    let near: String = near.iter().take(12).map(|byte| char::from(*byte)).collect();
    let begins = |words: &[&str]| {
        let at = |skip: usize| near.get(skip..).is_some_and(|text| words.iter().any(|w| text.starts_with(w)));
        at(0) || at(1)
    };
    if begins(&["NaN", "nan", "Infinity", "-Infinity", "inf", "-inf"]) {
        Some("JSON has no NaN and no Infinity")
    } else if begins(&["True", "False", "None"]) {
        Some("JSON writes true, false and null")
    } else if begins(&["'"]) {
        Some("JSON strings and keys stand in double quotes")
    } else {
        None
    }
}

/// Walks over valid JSON and fails on a duplicate key in an object.
struct DuplicateKeys<'s, 'de> {
    /// The keys of all open objects, those of the innermost object last.
    seen: &'s mut Vec<Cow<'de, str>>,
}

impl<'de> DeserializeSeed<'de> for DuplicateKeys<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DuplicateKeys<'_, 'de> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(DuplicateKeys { seen: &mut *self.seen })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let start = self.seen.len();
        let mut many: HashSet<Cow<'de, str>> = HashSet::new();
        while let Some(key) = map.next_key_seed(Key)? {
            let few = self.seen.get(start..).unwrap_or_default();
            if few.contains(&key) || many.contains(&key) {
                return Err(A::Error::custom(format_args!("the key {} is there twice", quote(&key))));
            }
            if few.len() < MAX_LINEAR_KEYS {
                self.seen.push(key);
            } else {
                many.insert(key);
            }
            let open = self.seen.len();
            map.next_value_seed(DuplicateKeys { seen: &mut *self.seen })?;
            self.seen.truncate(open);
        }
        self.seen.truncate(start);
        Ok(())
    }
}

/// An object's key, borrowed from the body unless it has escapes.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Cow<'de, str>, D::Error> {
        reader.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &[u8]) -> String {
        let fault = read(body).unwrap_err();
        assert_eq!((fault.status, fault.code), (400, Some("invalid_json")));
        fault.message
    }

    #[test]
    fn what_is_json_is_read() {
        for body in [r#"{"a": {"a": [{"a": 1}, {"a": 2}], "b": "\ud83d\ude00"}, "b": -1.5e3}"#, "\u{feff}{}"]
        {
            assert!(read(body.as_bytes()).is_ok(), "{body}");
        }
        let many: Vec<String> = (0..5_000).map(|n| format!("\"k{n}\": {n}")).collect();
        let body = format!("{{{}}}", many.join(", "));
        assert_eq!(read(body.as_bytes()).unwrap().as_object().unwrap().len(), 5_000);
        assert!(refused(format!("{{{}, \"k4999\": 1}}", many.join(", ")).as_bytes()).contains("k4999"));
    }

    #[test]
    fn said_badly_what_is_no_json_is_named() {
        for (body, words) in [
            (&b""[..], "empty"),
            (b" \n", "empty"),
            (br#"{"temperature": NaN}"#, "no NaN"),
            (br#"{"temperature": -Infinity}"#, "no NaN"),
            (br#"{"temperature": 1e400}"#, "number out of range"),
            (br#"{"stream": True}"#, "true, false and null"),
            (b"{'stream': true}", "double quotes"),
            (br#"{"a": "\ud800"}"#, "column"),
            (b"{\"a\": \"\xff\"}", "column 8"),
            (b"\x1f\x8b\x08\x00", "content-encoding: gzip"),
            (b"\xff\xfe{\x00}\x00", "UTF-16"),
            (br#"{"a": 1, "b": {"c": 1, "c": 2}}"#, "\"c\" is there twice"),
            (br#"{"a": 1, "\u0061": 2}"#, "\"a\" is there twice"),
            (br#"{"a": 1} x"#, "trailing"),
        ] {
            let message = refused(body);
            assert!(message.contains(words), "{message} lacks {words}");
        }
        let deep = [b"[".repeat(200), b"]".repeat(200)].concat();
        assert!(refused(&deep).contains("128 levels"));
    }
}
