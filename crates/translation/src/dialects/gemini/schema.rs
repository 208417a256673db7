//! Gemini's `Schema` (a subset of OpenAPI 3.0) as JSON Schema.

use serde_json::{Map, Value, json};

/// Most levels of a schema that are converted; deeper ones stay as they are.
const MAX_DEPTH: usize = 64;

/// Converts a schema: types in lower case, `nullable` as a further type, `anyOf` and the like by name, without the
/// fields that JSON Schema does not have.
pub(crate) fn to_json_schema(schema: &Value) -> Value {
    convert(schema, MAX_DEPTH)
}

fn convert(schema: &Value, depth: usize) -> Value {
    let (Value::Object(fields), Some(depth)) = (schema, depth.checked_sub(1)) else { return schema.clone() };
    let mut out = Map::new();
    for (name, value) in fields {
        match name.as_str() {
            "type" => {
                let kind = value.as_str().unwrap_or_default().to_ascii_lowercase();
                if kind != "type_unspecified" {
                    out.insert("type".into(), kind.into());
                }
            }
            "nullable" | "propertyOrdering" | "property_ordering" | "example" => {}
            "properties" | "defs" | "$defs" => {
                let inner = value.as_object().into_iter().flatten();
                let inner: Map<String, Value> =
                    inner.map(|(name, schema)| (name.clone(), convert(schema, depth))).collect();
                let name = if name == "defs" { "$defs" } else { name };
                out.insert(name.to_owned(), Value::Object(inner));
            }
            "items" | "additionalProperties" => drop(out.insert(name.clone(), convert(value, depth))),
            "anyOf" | "any_of" => {
                let options = value.as_array().into_iter().flatten();
                out.insert("anyOf".into(), options.map(|schema| convert(schema, depth)).collect());
            }
            // Numbers that the format of protocol buffers writes as strings.
            "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties" | "maxProperties" => {
                let number = value.as_str().and_then(|text| text.parse::<u64>().ok()).map(Value::from);
                out.insert(name.clone(), number.unwrap_or_else(|| value.clone()));
            }
            "ref" => drop(out.insert("$ref".into(), value.clone())),
            _ => drop(out.insert(name.clone(), value.clone())),
        }
    }
    if fields.get("nullable") == Some(&Value::Bool(true)) {
        match out.get("type").cloned() {
            Some(kind @ Value::String(_)) => drop(out.insert("type".into(), json!([kind, "null"]))),
            _ => {
                let inner = Value::Object(std::mem::take(&mut out));
                out.insert("anyOf".into(), json!([inner, {"type": "null"}]));
            }
        }
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_those_of_json_schema() {
        let schema = json!({"type": "OBJECT", "propertyOrdering": ["a"], "required": ["a"], "properties": {
            "a": {"type": "STRING", "nullable": true, "enum": ["x"]},
            "b": {"type": "ARRAY", "items": {"type": "INTEGER"}, "minItems": "2"},
            "type": {"anyOf": [{"type": "NUMBER"}], "nullable": true}}});
        assert_eq!(
            to_json_schema(&schema),
            json!({"type": "object", "required": ["a"], "properties": {
                "a": {"type": ["string", "null"], "enum": ["x"]},
                "b": {"type": "array", "items": {"type": "integer"}, "minItems": 2},
                "type": {"anyOf": [{"anyOf": [{"type": "number"}]}, {"type": "null"}]}}})
        );
    }
}
