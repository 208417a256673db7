//! Values put back into answers as JSON.

use privacy::{Escape, Redaction};
use serde_json::Value;

/// Fields of answers that hold JSON as text: a tool call's arguments.
const JSON_TEXT: [&str; 2] = ["arguments", "partial_json"];

/// Puts values back into all strings of an answer, as JSON where a string holds JSON.
pub(super) fn restore(redaction: &Redaction, field: Option<&str>, answer: &mut Value) {
    match answer {
        Value::String(text) => {
            let json = field.is_some_and(|field| JSON_TEXT.contains(&field));
            let mut restorer = redaction.restorer(if json { Escape::Json } else { Escape::None });
            let mut restored = restorer.push(text);
            restored.push_str(&restorer.finish());
            *text = restored;
        }
        Value::Array(items) => items.iter_mut().for_each(|item| restore(redaction, field, item)),
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(name, value)| restore(redaction, Some(name), value));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
