//! Reads constants and counts of assertions.

use serde_json::{Map, Value};

use super::build::{Builder, brief};
use super::number::Decimal;
use super::source::EXACT;

pub(super) type Rules = Map<String, Value>;

/// The prefix of an error that means "unsatisfiable", before the reason.
pub(super) const NEVER: &str = "\u{f8ff}never:";

pub(super) fn never<T>(reason: String) -> Result<T, String> {
    Err(format!("{NEVER}{reason}"))
}

/// A value that is neither an array nor an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Null,
    Boolean(bool),
    Number(String, Decimal),
    Text(String),
}

pub(super) fn scalar(value: &Value) -> Result<Option<Scalar>, String> {
    Ok(match value {
        Value::Null => Some(Scalar::Null),
        Value::Bool(value) => Some(Scalar::Boolean(*value)),
        Value::String(text) if !text.starts_with(EXACT) => Some(Scalar::Text(text.clone())),
        Value::String(_) | Value::Number(_) => {
            let text = value.as_str().map_or_else(|| value.to_string(), |text| text.replace(EXACT, ""));
            let value = Decimal::read(&text).ok_or_else(|| {
                format!("the number {} has too many digits", brief(&Value::from(text.as_str())))
            })?;
            Some(Scalar::Number(text, value))
        }
        Value::Array(_) | Value::Object(_) => None,
    })
}

pub(super) fn count(builder: &Builder, id: usize, rules: &Rules, key: &str) -> Result<Option<u64>, String> {
    let Some(value) = rules.get(key) else { return Ok(None) };
    let count = value
        .as_u64()
        .or_else(|| value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..1e15).contains(n)).map(|n| n as u64));
    count.map(Some).ok_or_else(|| builder.wrong(id, key, value, "a whole number from 0 on"))
}

/// The bounds of all schemas together: the largest minimum and the smallest maximum.
pub(super) fn counts(
    builder: &Builder,
    rules: &[(usize, Rules)],
    least: &str,
    most: &str,
) -> Result<(u64, Option<u64>), String> {
    let (mut low, mut high) = (0, None);
    for (id, rules) in rules {
        low = low.max(count(builder, *id, rules, least)?.unwrap_or(0));
        if let Some(most) = count(builder, *id, rules, most)? {
            high = Some(high.map_or(most, |old: u64| old.min(most)));
        }
    }
    Ok((low, high))
}
