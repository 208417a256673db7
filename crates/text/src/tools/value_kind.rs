//! Whether an argument is a text or JSON, by the schema of its tool.

use serde_json::Value;

/// What the value of an argument may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    /// A text only.
    Text,
    /// Any JSON but a text.
    Json,
    /// Both, or unknown.
    Either,
}

/// How deep alternatives and references are followed.
const MOST_DEPTH: usize = 8;

/// The kind of an argument in the schema of a tool's arguments.
pub(super) fn value_kind(schema: Option<&Value>, key: &str) -> ValueKind {
    let Some(root) = schema else { return ValueKind::Either };
    let Some(property) = root.get("properties").and_then(|all| all.get(key)) else {
        return ValueKind::Either;
    };
    let mut seen = Seen::default();
    seen.look(property, root, 0);
    match (seen.text, seen.other) {
        (true, false) => ValueKind::Text,
        (false, true) => ValueKind::Json,
        _ => ValueKind::Either,
    }
}

/// The types that a schema names.
#[derive(Default)]
struct Seen {
    text: bool,
    other: bool,
}

impl Seen {
    fn look(&mut self, schema: &Value, root: &Value, depth: usize) {
        if depth > MOST_DEPTH {
            (self.text, self.other) = (true, true);
            return;
        }
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            match target.strip_prefix('#').and_then(|pointer| root.pointer(pointer)) {
                Some(found) => self.look(found, root, depth + 1),
                None => (self.text, self.other) = (true, true),
            }
            return;
        }
        match schema.get("type") {
            Some(Value::String(name)) => return self.name(name),
            Some(Value::Array(names)) => {
                return names.iter().filter_map(Value::as_str).for_each(|n| self.name(n));
            }
            _ => {}
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return values.iter().for_each(|value| self.value(value));
        }
        if let Some(value) = schema.get("const") {
            return self.value(value);
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            let alternatives = schema.get(key).and_then(Value::as_array);
            alternatives.into_iter().flatten().for_each(|schema| self.look(schema, root, depth + 1));
        }
    }

    fn name(&mut self, name: &str) {
        match name {
            "string" => self.text = true,
            _ => self.other = true,
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::String(_) => self.text = true,
            _ => self.other = true,
        }
    }
}

/// The least and the most characters of a text, if a schema allows nothing but texts and bounds only their length.
pub(crate) fn text_lengths(schema: &Value) -> Option<(u64, Option<u64>)> {
    const OTHER_BOUNDS: [&str; 4] = ["enum", "const", "pattern", "format"];
    let is_text = schema.get("type").and_then(Value::as_str) == Some("string");
    let bound = |name: &str| schema.get(name).and_then(Value::as_u64);
    let is_free = is_text && OTHER_BOUNDS.iter().all(|bound| schema.get(*bound).is_none());
    is_free.then(|| (bound("minLength").unwrap_or(0), bound("maxLength")))
}
