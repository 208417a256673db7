//! Typed values of a JSON object whose fields' places are known.

use std::borrow::Cow;
use std::ops::Range;

use wire::Fault;
use wire::error::quote;

use crate::skim::{self, Skim};

/// Most fields of a body's outermost object, and of the objects in it that a head looks into.
pub const MAX_FIELDS: usize = 256;

/// A field of an object, by its places in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// The name without escapes.
    pub(crate) name: String,
    /// The key, with its quotes.
    pub(crate) key: Range<usize>,
    /// The value.
    pub(crate) value: Range<usize>,
}

/// Reads the values of one object. `null` counts as left out.
pub(crate) struct Object<'a> {
    fields: Cow<'a, [Field]>,
    text: &'a [u8],
    /// Path of the object, for errors: `stream_options.`
    prefix: &'static str,
}

impl<'a> Object<'a> {
    /// The outermost object of a body.
    pub(crate) fn new(fields: &'a [Field], text: &'a [u8]) -> Object<'a> {
        Object { fields: Cow::Borrowed(fields), text, prefix: "" }
    }

    /// An object's text, walked over.
    ///
    /// # Errors
    /// 400 if the text is no object, has a field twice or more than [`MAX_FIELDS`].
    pub(crate) fn walk(text: &'a [u8], prefix: &'static str) -> Result<Object<'a>, Fault> {
        let mut fields: Vec<Field> = Vec::new();
        let mut refused = None;
        let mut skim = Skim::new(text);
        let walked = skim.object(|skim, key| {
            let name = skim.text(key).into_owned();
            let value = skim.value()?;
            if fields.len() >= MAX_FIELDS {
                let message = format!("{prefix} has more than {MAX_FIELDS} fields");
                refused.get_or_insert_with(|| Fault::body(message));
            } else if fields.iter().any(|field| field.name == name) {
                let message = format!("the key {} is there twice", quote(&name));
                refused.get_or_insert_with(|| Fault::not_json(message));
            } else {
                fields.push(Field { name, key: key.clone(), value });
            }
            Ok(())
        });
        match (walked, refused) {
            (Err(error), _) => Err(Fault::not_json(error)),
            (Ok(()), Some(fault)) => Err(fault),
            (Ok(()), None) => Ok(Object { fields: Cow::Owned(fields), text, prefix }),
        }
    }

    /// The place of a value in the object's text.
    pub(crate) fn range(&self, name: &str) -> Option<&Range<usize>> {
        self.fields.iter().find(|field| field.name == name).map(|field| &field.value)
    }

    /// A value's text, unless it is `null`.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a [u8]> {
        self.text.get(self.range(name)?.clone()).filter(|raw| raw != b"null")
    }

    fn wrong<T>(&self, name: &str, raw: &[u8], must: &str) -> Result<T, Fault> {
        let path = format!("{}{name}", self.prefix);
        let shown = match raw.first() {
            Some(b'[') => "an array".to_owned(),
            Some(b'{') => "an object".to_owned(),
            Some(b'"') => quote(&skim::text(raw)),
            _ => String::from_utf8_lossy(raw.get(..raw.len().min(40)).unwrap_or_default()).into_owned(),
        };
        let message = format!("{path} is {shown}; it must be {must}");
        Err(Fault::field(path, message))
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, Fault> {
        match self.raw(name) {
            None => Ok(None),
            Some(raw) if raw.first() == Some(&b'"') => Ok(Some(skim::text(raw).into_owned())),
            Some(raw) => self.wrong(name, raw, "a string"),
        }
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool, Fault> {
        match self.raw(name) {
            None | Some(b"false") => Ok(false),
            Some(b"true") => Ok(true),
            Some(raw) => self.wrong(name, raw, "true or false"),
        }
    }

    fn parsed<T: std::str::FromStr>(&self, name: &str, must: &str) -> Result<Option<T>, Fault> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        match std::str::from_utf8(raw).ok().and_then(|text| text.parse().ok()) {
            Some(number) => Ok(Some(number)),
            None => self.wrong(name, raw, must),
        }
    }

    pub(crate) fn count(&self, name: &str) -> Result<Option<u64>, Fault> {
        self.parsed(name, "a whole number of at least 0")
    }

    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, Fault> {
        self.parsed(name, "a whole number")
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, Fault> {
        match self.parsed::<f64>(name, "a number")? {
            Some(number) if !number.is_finite() => {
                self.wrong(name, self.raw(name).unwrap_or_default(), "a finite number")
            }
            number => Ok(number),
        }
    }

    /// A number or a string, as text.
    pub(crate) fn scalar(&self, name: &str) -> Option<String> {
        let raw = self.raw(name)?;
        match raw.first() {
            Some(b'"') => Some(skim::text(raw).into_owned()),
            Some(b'-' | b'0'..=b'9') => Some(String::from_utf8_lossy(raw).into_owned()),
            _ => None,
        }
    }

    /// The place of an array that is not empty.
    pub(crate) fn list(&self, name: &str) -> Option<Range<usize>> {
        let raw = self.raw(name)?;
        let inner = raw.strip_prefix(b"[")?.strip_suffix(b"]")?;
        let empty = inner.iter().all(u8::is_ascii_whitespace);
        if empty { None } else { self.range(name).cloned() }
    }

    /// An object in a field.
    pub(crate) fn object(&self, name: &str, prefix: &'static str) -> Result<Option<Object<'a>>, Fault> {
        match self.raw(name) {
            None => Ok(None),
            Some(raw) if raw.first() == Some(&b'{') => Object::walk(raw, prefix).map(Some),
            Some(raw) => self.wrong(name, raw, "an object"),
        }
    }
}
