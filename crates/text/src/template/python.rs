//! Python's behaviour that templates rely on: printing of values, `tojson`, and tests and functions that differ from
//! minijinja's.

use std::fmt;

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, Output, State, Value};

use super::meter::{self, MAX_DEPTH};

/// The message of `raise_exception`.
#[derive(Debug)]
pub(super) struct Raised(pub(super) String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

/// Writes a value as Python's `str` does.
pub(super) fn format(out: &mut Output<'_>, _: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    let written = match value.as_str() {
        Some(text) => {
            meter::charge_created(text.len() as u64)?;
            out.write_str(text)
        }
        None => out.write_str(&text(value)?),
    };
    written.map_err(|_| Error::new(ErrorKind::WriteFailure, "the output is full"))
}

/// Python's `str`.
pub(super) fn text(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::String | ValueKind::Undefined => {
            meter::charge_created(meter::shallow_size(value))?;
            Ok(value.to_string())
        }
        ValueKind::Invalid => value.validate_text(),
        _ => {
            let mut out = String::new();
            repr(value, 0, &mut out)?;
            Ok(out)
        }
    }
}

trait ValidateText {
    fn validate_text(&self) -> Result<String, Error>;
}

impl ValidateText for Value {
    fn validate_text(&self) -> Result<String, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, self.to_string()))
    }
}

/// Python's `repr`.
fn repr(value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
    deep(depth)?;
    charge(value)?;
    match value.kind() {
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => number(value, out),
        ValueKind::String => quoted(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (at, item) in value.try_iter()?.enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                repr(&item, depth + 1, out)?;
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (at, key) in value.try_iter()?.enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                repr(&key, depth + 1, out)?;
                out.push_str(": ");
                repr(&value.get_item(&key)?, depth + 1, out)?;
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

fn deep(depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH { Err(meter::too_deep()) } else { Ok(()) }
}

/// Charges for a value that is about to be written, without inner values; escaping may double a string.
fn charge(value: &Value) -> Result<(), Error> {
    let letters = if value.kind() == ValueKind::String { 2 * meter::shallow_size(value) } else { 0 };
    meter::charge_created(letters.saturating_add(16))?;
    meter::charge_read(letters)
}

/// Python's `repr` of a string: single quotes unless only they occur in it.
fn quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if u32::from(c) < 0x20 || (0x7f..0xa1).contains(&u32::from(c)) || c == '\u{ad}' => {
                out.push_str(&format!("\\x{:02x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// A number as Python prints it.
fn number(value: &Value, out: &mut String) {
    if value.is_integer() {
        out.push_str(&value.to_string());
        return;
    }
    let Ok(float) = f64::try_from(value.clone()) else {
        out.push_str(&value.to_string());
        return;
    };
    out.push_str(&float_text(float));
}

/// The shortest digits that read back the same; powers of ten below 1e-4 and from 1e16 as exponents.
fn float_text(float: f64) -> String {
    if float.is_nan() {
        return "nan".into();
    }
    if float.is_infinite() {
        return if float > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let size = float.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{float:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(rest) => ('-', rest),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    let text = float.to_string();
    if text.contains('.') { text } else { text + ".0" }
}

/// The options of `tojson`.
struct JsonStyle {
    indent: Option<String>,
    item: String,
    key: String,
    ascii: bool,
    sorted: bool,
}

/// `json.dumps` with the arguments that transformers gives to `tojson`.
pub(super) fn to_json(value: &Value, positional: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let argument = |at: usize, name: &str| -> Result<Option<Value>, Error> {
        let given = kwargs.get::<Option<Value>>(name)?.or_else(|| positional.get(at).cloned());
        Ok(given.filter(|value| !value.is_none() && !value.is_undefined()))
    };
    let truth = |value: Option<Value>| value.is_some_and(|value| value.is_true());
    let ascii = truth(argument(0, "ensure_ascii")?);
    let indent = match argument(1, "indent")? {
        Some(value) if value.as_str().is_some() => value.as_str().map(str::to_owned),
        Some(value) => Some(" ".repeat(value.as_usize().unwrap_or(0).min(64))),
        None => None,
    };
    let (item, key) = match argument(2, "separators")? {
        Some(pair) => (text(&pair.get_item_by_index(0)?)?, text(&pair.get_item_by_index(1)?)?),
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
    };
    let sorted = truth(argument(3, "sort_keys")?);
    kwargs.assert_all_used()?;
    let mut out = String::new();
    dump(value, &JsonStyle { indent, item, key, ascii, sorted }, 0, &mut out)?;
    Ok(Value::from(out))
}

fn dump(value: &Value, style: &JsonStyle, depth: usize, out: &mut String) -> Result<(), Error> {
    deep(depth)?;
    charge(value)?;
    // The white space between values.
    let indent = style.indent.as_ref().map_or(0, |indent| indent.len() * (depth + 1));
    meter::charge_created((indent + style.item.len() + style.key.len()) as u64)?;
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => {
            let mut text = String::new();
            number(value, &mut text);
            out.push_str(match text.as_str() {
                "nan" => "NaN",
                "inf" => "Infinity",
                "-inf" => "-Infinity",
                text => text,
            });
        }
        ValueKind::String => json_string(value.as_str().unwrap_or_default(), style.ascii, out),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            block(items, ('[', ']'), style, depth, out, |item, out| dump(&item, style, depth + 1, out))?;
        }
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if style.sorted {
                keys.iter().try_for_each(|key| meter::charge_read_all(key).map(|_| ()))?;
                keys.sort();
            }
            block(keys, ('{', '}'), style, depth, out, |key, out| {
                json_key(&key, style.ascii, out)?;
                out.push_str(&style.key);
                dump(&value.get_item(&key)?, style, depth + 1, out)
            })?;
        }
        kind => {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("tojson cannot write a value of kind {kind}"),
            ));
        }
    }
    Ok(())
}

/// Items between brackets, a line each if there is an indent.
fn block(
    items: Vec<Value>,
    brackets: (char, char),
    style: &JsonStyle,
    depth: usize,
    out: &mut String,
    mut write: impl FnMut(Value, &mut String) -> Result<(), Error>,
) -> Result<(), Error> {
    let line = |out: &mut String, depth: usize| {
        if let Some(indent) = &style.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    };
    out.push(brackets.0);
    let some = !items.is_empty();
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push_str(&style.item);
        }
        line(out, depth + 1);
        write(item, out)?;
    }
    if some {
        line(out, depth);
    }
    out.push(brackets.1);
    Ok(())
}

fn json_key(key: &Value, ascii: bool, out: &mut String) -> Result<(), Error> {
    charge(key)?;
    let text = match key.kind() {
        ValueKind::String => key.to_string(),
        ValueKind::None => "null".into(),
        ValueKind::Bool => if key.is_true() { "true" } else { "false" }.into(),
        _ => text(key)?,
    };
    json_string(&text, ascii, out);
    Ok(())
}

fn json_string(text: &str, ascii: bool, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c if ascii && !(' '..='~').contains(&c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::float_text;

    #[test]
    fn floats_print_as_in_python() {
        let cases = [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e16, "1e+16"),
            (1.5e-7, "1.5e-07"),
            (123456789.5, "123456789.5"),
            (0.0, "0.0"),
        ];
        for (float, want) in cases {
            assert_eq!(float_text(float), want);
        }
        assert_eq!(float_text(-1e300), "-1e+300");
        assert_eq!(float_text(1e15), "1000000000000000.0");
    }
}
