//! Typed access to the fields of JSON objects. Errors name the field, the value and the limit. `null` means absent.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::error::{Fault, quote, shorten};

/// An object of the body, with its path in the body.
pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Fields<'a> {
    /// The fields of the body's outermost object.
    pub(crate) fn body(value: &'a Value) -> Result<Fields<'a>, Fault> {
        match value {
            Value::Object(map) => Ok(Fields { map, path: String::new() }),
            other => Err(Fault::body(format!("the body must be a JSON object; it is {}", kind(other)))),
        }
    }

    /// The fields of an object at `path`.
    pub(crate) fn at(value: &'a Value, path: String) -> Result<Fields<'a>, Fault> {
        match value {
            Value::Object(map) => Ok(Fields { map, path }),
            other => Err(wrong(&path, other, "an object")),
        }
    }

    /// The full name of a field, for `param`.
    pub(crate) fn param(&self, name: &str) -> String {
        let name = shown_name(name);
        if self.path.is_empty() { name } else { format!("{}.{name}", self.path) }
    }

    /// Names and values in the order of the body.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
        self.map.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|v| !v.is_null())
    }

    pub(crate) fn boolean(&self, name: &str) -> Result<Option<bool>, Fault> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bool(b)) => Ok(Some(*b)),
            Some(other) => Err(wrong(&self.param(name), other, "true or false")),
        }
    }

    pub(crate) fn float(&self, name: &str, range: RangeInclusive<f32>) -> Result<Option<f32>, Fault> {
        let Some(value) = self.get(name) else { return Ok(None) };
        float(&self.param(name), value, range).map(Some)
    }

    pub(crate) fn integer(&self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, Fault> {
        let Some(value) = self.get(name) else { return Ok(None) };
        integer(&self.param(name), value, range).map(Some)
    }

    /// A count of tokens or entries; a negative number within `range` becomes 0.
    pub(crate) fn count(&self, name: &str, range: RangeInclusive<i64>) -> Result<Option<usize>, Fault> {
        Ok(self.integer(name, range)?.map(|n| usize::try_from(n).unwrap_or(0)))
    }

    pub(crate) fn text(&self, name: &str, max_bytes: usize) -> Result<Option<&'a str>, Fault> {
        let Some(value) = self.get(name) else { return Ok(None) };
        text(&self.param(name), value, max_bytes).map(Some)
    }

    pub(crate) fn list(&self, name: &str, max: usize) -> Result<Option<&'a [Value]>, Fault> {
        let Some(value) = self.get(name) else { return Ok(None) };
        list(&self.param(name), value, max).map(Some)
    }

    pub(crate) fn object(&self, name: &str, max: usize) -> Result<Option<&'a Map<String, Value>>, Fault> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Object(map)) if map.len() > max => Err(too_many(&self.param(name), map.len(), max)),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(other) => Err(wrong(&self.param(name), other, "an object")),
        }
    }
}

/// A client's name for an error message: at most 80 characters, control characters replaced.
pub(crate) fn shown_name(name: &str) -> String {
    shorten(name).chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

pub(crate) fn float(param: &str, value: &Value, range: RangeInclusive<f32>) -> Result<f32, Fault> {
    let number = value.as_f64().ok_or_else(|| wrong(param, value, "a number"))?;
    let (low, high) = (*range.start(), *range.end());
    // Rounded as the bounds of the range are: 0.001 in f64 is a little less than in f32. 1e300 becomes infinite, which
    // is outside any range.
    #[expect(clippy::cast_possible_truncation, reason = "the number nearest to it is meant")]
    let rounded = number as f32;
    if range.contains(&rounded) {
        return Ok(rounded);
    }
    Err(Fault::field(param, format!("{param} is {}; it must be between {low} and {high}", show(value))))
}

pub(crate) fn integer(param: &str, value: &Value, range: RangeInclusive<i64>) -> Result<i64, Fault> {
    let whole = |f: f64| f.fract() == 0.0 && f.abs() < 9e15;
    #[expect(clippy::cast_possible_truncation, reason = "whole and within ±9e15")]
    let number = value.as_i64().or_else(|| value.as_f64().filter(|f| whole(*f)).map(|f| f as i64));
    match number {
        Some(n) if range.contains(&n) => Ok(n),
        None if !value.is_number() => Err(wrong(param, value, "a whole number")),
        _ => Err(Fault::field(
            param,
            format!(
                "{param} is {}; it must be a whole number between {} and {}",
                show(value),
                range.start(),
                range.end()
            ),
        )),
    }
}

pub(crate) fn text<'a>(param: &str, value: &'a Value, max_bytes: usize) -> Result<&'a str, Fault> {
    let Value::String(s) = value else { return Err(wrong(param, value, "a string")) };
    if s.len() > max_bytes {
        let message = format!("{param} has {} bytes; at most {max_bytes} are allowed", s.len());
        return Err(Fault::field(param, message));
    }
    Ok(s)
}

pub(crate) fn list<'a>(param: &str, value: &'a Value, max: usize) -> Result<&'a [Value], Fault> {
    let Value::Array(entries) = value else { return Err(wrong(param, value, "an array")) };
    if entries.len() > max {
        return Err(too_many(param, entries.len(), max));
    }
    Ok(entries)
}

pub(crate) fn too_many(param: &str, found: usize, max: usize) -> Fault {
    Fault::field(param, format!("{param} has {found} entries; at most {max} are allowed"))
}

pub(crate) fn wrong(param: &str, value: &Value, expected: &str) -> Fault {
    let mut fault = Fault::field(param, format!("{param} must be {expected}; it is {}", kind(value)));
    fault.code = Some("invalid_type");
    fault
}

/// A value as error messages show it, shortened.
pub(crate) fn show(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => kind(value),
        Value::String(text) => quote(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => shorten(&value.to_string()),
    }
}

/// A text as error messages show it; "missing" for none.
pub(crate) fn said(word: Option<&str>) -> String {
    word.map_or_else(|| "missing".to_owned(), quote)
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(b) => format!("the boolean {b}"),
        Value::Number(n) => format!("the number {}", shorten(&n.to_string())),
        Value::String(s) => format!("the string {}", quote(s)),
        Value::Array(a) => format!("an array of {}", a.len()),
        Value::Object(_) => "an object".into(),
    }
}
