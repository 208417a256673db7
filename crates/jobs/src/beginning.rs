//! The text with which a request's prompt begins, taken from its body without knowledge of the model's template.

use crate::prefix::MAX_BEGINNING;
use serde_json::Value;

/// Between parts of a prompt, so that two texts never look like one.
const SEPARATOR: u8 = 0x1E;

/// The beginning of the prompt of a request: model, tools, instructions and then its messages, prompt or input in order, with
/// separators; at most 1 MiB. Empty if the body is no JSON object.
///
/// Two requests whose beginnings agree up to a place are likely to have the same tokens up to there.
pub fn beginning(body: &[u8]) -> Vec<u8> {
    let mut text = Text { bytes: Vec::new() };
    if let Ok(Value::Object(body)) = serde_json::from_slice(body) {
        for name in ["model", "tools", "functions", "instructions", "system", "query"] {
            if let Some(value) = body.get(name) {
                text.value(value);
            }
        }
        for name in ["messages", "prompt", "input", "inputs", "documents"] {
            match body.get(name) {
                Some(Value::Array(parts)) => parts.iter().for_each(|part| text.part(part)),
                Some(value) => text.value(value),
                None => {}
            }
        }
    }
    text.bytes.truncate(MAX_BEGINNING);
    text.bytes
}

struct Text {
    bytes: Vec<u8>,
}

impl Text {
    /// A message, an item of an input, or a text.
    fn part(&mut self, part: &Value) {
        let Value::Object(fields) = part else { return self.value(part) };
        if let Some(role) = fields.get("role") {
            self.value(role);
        }
        match fields.get("content").or_else(|| fields.get("text")) {
            Some(Value::Array(contents)) => contents.iter().for_each(|content| self.content(content)),
            Some(content) => self.value(content),
            None => {}
        }
        for (name, value) in fields {
            if !matches!(name.as_str(), "role" | "content" | "text") {
                self.value(value);
            }
        }
    }

    /// A part of a message's content: its text, or the whole of it.
    fn content(&mut self, content: &Value) {
        self.value(content.get("text").filter(|text| text.is_string()).unwrap_or(content));
    }

    fn value(&mut self, value: &Value) {
        if self.bytes.len() >= MAX_BEGINNING {
            return;
        }
        match value {
            Value::String(text) => self.bytes.extend_from_slice(text.as_bytes()),
            other => self.bytes.extend_from_slice(other.to_string().as_bytes()),
        }
        self.bytes.push(SEPARATOR);
    }
}

#[cfg(test)]
#[path = "beginning_tests.rs"]
mod tests;
