//! Methods of Python's strings and dicts that templates call and minijinja lacks.

use minijinja::value::{ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::meter::{self, ENTRY};
use super::operations;

/// The method that replaces `[::-1]`.
pub(super) const REVERSED: &str = "__reversed__";

/// Called for each method that a value does not have itself. Charges for the receiver and all arguments; lazy results
/// are materialized.
pub(super) fn call(
    state: &State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let own = if method == "count" && value.kind() != ValueKind::String {
        meter::charge_read_all(value)?
    } else {
        meter::shallow_size(value)
    };
    meter::charge_read(own)?;
    let mut given = 0_u64;
    for arg in args {
        given = given.saturating_add(match method {
            // A lookup by key; the default is passed through.
            "get" => meter::shallow_size(arg),
            _ => meter::charge_read_all(arg)?,
        });
    }
    if method == "get" {
        meter::charge_read(given)?;
    }
    let text = value.as_str();
    meter::charge_created(match (method, text) {
        // A list of pieces, each at least one character long.
        ("split" | "rsplit" | "splitlines" | "partition" | "rpartition", Some(text)) => {
            (text.len() as u64).saturating_mul(ENTRY + 1)
        }
        (REVERSED, Some(text)) => text.len() as u64,
        ("format", Some(text)) => operations::formats(text, args)?,
        // Charged where they are created.
        ("replace" | "join", Some(_)) => 0,
        ("get", _) => 0,
        (_, Some(text)) => given.saturating_add(3 * text.len() as u64 + 2000),
        _ => own,
    })?;
    meter::materialized(call_charged(state, value, method, args)?)
}

fn call_charged(state: &State<'_, '_>, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    if method == REVERSED {
        let reversed = value.as_str().map(|text| Value::from(text.chars().rev().collect::<String>()));
        return match reversed {
            Some(text) => Ok(text),
            None => value.try_iter().map(|items| items.collect::<Vec<_>>().into_iter().rev().collect()),
        };
    }
    if let (ValueKind::String, Some(text)) = (value.kind(), value.as_str())
        && let Some(result) = of_string(text, method, args)?
    {
        return Ok(result);
    }
    if value.kind() == ValueKind::Map && method == "copy" && args.is_empty() {
        return Ok(value.clone());
    }
    unknown_method_callback(state, value, method, args)
}

fn of_string(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let one = || -> Result<&str, Error> { from_args::<(&str,)>(args).map(|(text,)| text) };
    let chars =
        || -> Result<Option<&str>, Error> { from_args::<(Option<&str>,)>(args).map(|(chars,)| chars) };
    Ok(Some(match method {
        "strip" => Value::from(strip(text, chars()?, true, true)),
        "lstrip" => Value::from(strip(text, chars()?, true, false)),
        "rstrip" => Value::from(strip(text, chars()?, false, true)),
        "removeprefix" => Value::from(text.strip_prefix(one()?).unwrap_or(text)),
        "removesuffix" => Value::from(text.strip_suffix(one()?).unwrap_or(text)),
        "partition" | "rpartition" => parts(text, one()?, method == "rpartition")?,
        "rsplit" => rsplit(text, args)?,
        "replace" => {
            let (old, new, count): (&str, &str, Option<i64>) = from_args(args)?;
            Value::from(operations::replace(text, old, new, count)?)
        }
        "join" => {
            let (items,): (&Value,) = from_args(args)?;
            Value::from(operations::join(items, text, None)?)
        }
        // minijinja's pycompat loops forever on an empty string.
        "count" => Value::from(match one()? {
            "" => text.chars().count() + 1,
            part => text.matches(part).count(),
        }),
        "casefold" => Value::from(text.to_lowercase()),
        "swapcase" => Value::from(text.chars().flat_map(swap_case).collect::<String>()),
        "zfill" | "ljust" | "rjust" | "center" => pad(text, method, args)?,
        "index" => {
            let found = text.find(one()?).map(|at| text[..at].chars().count());
            Value::from(found.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "substring not found"))?)
        }
        // True for an empty string in pycompat, false in Python.
        "isdigit" | "isnumeric" | "isalpha" | "isalnum" | "isspace" | "islower" | "isupper"
            if text.is_empty() =>
        {
            Value::from(false)
        }
        "islower" => {
            Value::from(text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase))
        }
        "isupper" => {
            Value::from(text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase))
        }
        _ => return Ok(None),
    }))
}

/// Python's `strip`, whose white space also holds the four separators U+001C to U+001F.
pub(super) fn strip<'a>(text: &'a str, chars: Option<&str>, left: bool, right: bool) -> &'a str {
    let drop = |c: char| match chars {
        Some(chars) => chars.contains(c),
        None => c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c),
    };
    let text = if left { text.trim_start_matches(drop) } else { text };
    if right { text.trim_end_matches(drop) } else { text }
}

fn parts(text: &str, separator: &str, from_right: bool) -> Result<Value, Error> {
    if separator.is_empty() {
        return Err(Error::new(ErrorKind::InvalidOperation, "empty separator"));
    }
    let found = if from_right { text.rsplit_once(separator) } else { text.split_once(separator) };
    Ok(match found {
        Some((before, after)) => [before, separator, after],
        None if from_right => ["", "", text],
        None => [text, "", ""],
    }
    .into_iter()
    .map(Value::from)
    .collect())
}

fn rsplit(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (separator, most): (Option<&str>, Option<i64>) = from_args(args)?;
    let most = most.filter(|most| *most >= 0).map_or(usize::MAX, |most| (most as usize).saturating_add(1));
    let mut pieces: Vec<&str> = match separator {
        Some("") => return Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
        Some(separator) => text.rsplitn(most, separator).collect(),
        None if most == usize::MAX => text.split_whitespace().rev().collect(),
        None => {
            let text = text.trim_end();
            text.rsplitn(most, char::is_whitespace)
                .map(str::trim_end)
                .filter(|piece| !piece.is_empty())
                .collect()
        }
    };
    pieces.reverse();
    Ok(pieces.into_iter().map(Value::from).collect())
}

fn swap_case(c: char) -> Vec<char> {
    if c.is_uppercase() { c.to_lowercase().collect() } else { c.to_uppercase().collect() }
}

/// `zfill`, `ljust`, `rjust` and `center`, to at most a thousand characters.
fn pad(text: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    let (width, fill): (i64, Option<char>) = from_args(args)?;
    let missing = usize::try_from(width.min(1000)).unwrap_or(0).saturating_sub(text.chars().count());
    let fill = |n: usize, default: char| fill.unwrap_or(default).to_string().repeat(n);
    Ok(Value::from(match method {
        "zfill" => match text.strip_prefix(['-', '+']) {
            Some(digits) => format!("{}{}{digits}", &text[..1], "0".repeat(missing)),
            None => format!("{}{text}", "0".repeat(missing)),
        },
        "ljust" => format!("{text}{}", fill(missing, ' ')),
        "rjust" => format!("{}{text}", fill(missing, ' ')),
        _ => format!("{}{text}{}", fill(missing / 2, ' '), fill(missing - missing / 2, ' ')),
    }))
}
