//! Negates schemas.

use serde_json::{Value, json};

use super::source::object;

/// Internal keyword: none of these scalars.
pub(super) const NOT_IN: &str = "\u{f8ff}not in";
/// Internal keyword: a string in which this pattern has no match.
pub(super) const NOT_PATTERN: &str = "\u{f8ff}not pattern";
/// Internal keyword: a number that is not an integer.
pub(super) const FRACTION: &str = "\u{f8ff}fraction";

/// The negation of `schema`, in which `not` is applied to parts.
///
/// # Errors
/// A keyword that cannot be negated.
pub(super) fn opposite(schema: &Value) -> Result<Value, String> {
    let map = match schema {
        Value::Bool(all) => return Ok(Value::Bool(!all)),
        Value::Object(map) => map,
        other => return Err(format!("a schema must be an object or true or false; it is {other}")),
    };
    let mut options = Vec::new();
    for (key, value) in map {
        if let Some(option) = keyword(key, value, schema)? {
            options.push(option);
        }
    }
    Ok(object([("anyOf", Value::from(options))]))
}

fn not(schema: &Value) -> Value {
    json!({ "not": schema })
}

fn keyword(key: &str, value: &Value, schema: &Value) -> Result<Option<Value>, String> {
    let list = || value.as_array().cloned().unwrap_or_default();
    let count = || value.as_u64().ok_or_else(|| format!("{key} must be a number that counts; it is {value}"));
    Ok(Some(match key {
        "type" => types(value),
        "const" => values(std::slice::from_ref(value))?,
        "enum" => values(&list())?,
        "anyOf" => json!({ "allOf": list().iter().map(not).collect::<Vec<_>>() }),
        "allOf" => json!({ "anyOf": list().iter().map(not).collect::<Vec<_>>() }),
        "not" => value.clone(),
        "required" => {
            let without = list().into_iter().map(
                |name| json!({"type": "object", "properties": {name.as_str().unwrap_or_default(): false}}),
            );
            json!({ "anyOf": without.collect::<Vec<_>>() })
        }
        "properties" => {
            let wrong = value.as_object().into_iter().flatten().map(|(name, schema)| {
                json!({"type": "object", "required": [name], "properties": {name: not(schema)}})
            });
            json!({ "anyOf": wrong.collect::<Vec<_>>() })
        }
        "minimum" => json!({"type": "number", "exclusiveMaximum": value}),
        "maximum" => json!({"type": "number", "exclusiveMinimum": value}),
        "exclusiveMinimum" if !value.is_boolean() => json!({"type": "number", "maximum": value}),
        "exclusiveMaximum" if !value.is_boolean() => json!({"type": "number", "minimum": value}),
        "minLength" => fewer("string", "maxLength", count()?),
        "maxLength" => json!({"type": "string", "minLength": count()? + 1}),
        "minItems" => fewer("array", "maxItems", count()?),
        "maxItems" => json!({"type": "array", "minItems": count()? + 1}),
        "minProperties" => fewer("object", "maxProperties", count()?),
        "maxProperties" => json!({"type": "object", "minProperties": count()? + 1}),
        "pattern" => json!({"type": "string", NOT_PATTERN: value}),
        "items" if value.is_object() || value.is_boolean() => {
            if schema.get("prefixItems").is_some() {
                return Err("items beside prefixItems under not".into());
            }
            json!({"type": "array", "contains": not(value)})
        }
        NOT_IN => json!({"enum": value}),
        NOT_PATTERN => json!({"type": "string", "pattern": value}),
        "$ref"
        | "oneOf"
        | "if"
        | "then"
        | "else"
        | "dependentRequired"
        | "dependentSchemas"
        | "dependencies"
        | "patternProperties"
        | "propertyNames"
        | "prefixItems"
        | "items"
        | "additionalItems"
        | "contains"
        | "minContains"
        | "maxContains"
        | "uniqueItems"
        | "multipleOf"
        | "unevaluatedProperties"
        | "unevaluatedItems"
        | "$dynamicRef"
        | "$recursiveRef"
        | "exclusiveMinimum"
        | "exclusiveMaximum"
        | FRACTION => {
            return Err(format!("{key} under not"));
        }
        "additionalProperties" => match (value, schema.get("patternProperties")) {
            (Value::Bool(true), _) => return Ok(None),
            _ => return Err("additionalProperties under not".into()),
        },
        // An annotation is always satisfied, so its negation is not an alternative.
        _ => return Ok(None),
    }))
}

fn fewer(kind: &str, keyword: &str, count: u64) -> Value {
    match count.checked_sub(1) {
        Some(most) => json!({"type": kind, keyword: most}),
        None => Value::Bool(false),
    }
}

fn types(value: &Value) -> Value {
    let named: Vec<&str> = match value {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let others: Vec<&str> = ["null", "boolean", "number", "string", "array", "object"]
        .into_iter()
        .filter(|name| !named.contains(name) && (*name != "number" || !named.contains(&"integer")))
        .collect();
    if named.contains(&"integer") && !named.contains(&"number") {
        return json!({"anyOf": [{"type": others}, {"type": "number", FRACTION: true}]});
    }
    if others.is_empty() { Value::Bool(false) } else { json!({ "type": others }) }
}

fn values(values: &[Value]) -> Result<Value, String> {
    if values.iter().any(|value| value.is_array() || value.is_object()) {
        return Err("a list or an object as a value under not".into());
    }
    Ok(json!({ NOT_IN: values }))
}
