//! Checks objects against the JSON Schemas of the clients' types, for tests. Of the language of schemas, what those use.

use serde_json::Value;

/// Made by `tools/fixtures/jobs.py` from the packages `openai` and `anthropic`.
const SCHEMAS: &str = include_str!("../tests/fixtures/schemas.json");

/// Panics unless the object is as the named schema says.
pub(crate) fn check(name: &str, object: &Value) {
    let schemas: Value = serde_json::from_str(SCHEMAS).expect("the fixture is JSON");
    let root = &schemas[name];
    assert!(root.is_object(), "there is no schema {name}");
    if let Err(fault) = fits(root, root, object) {
        panic!("{name}: {fault}\n{object:#}");
    }
}

/// The names of an object's members in the schema.
pub(crate) fn names(name: &str) -> Vec<String> {
    let schemas: Value = serde_json::from_str(SCHEMAS).expect("the fixture is JSON");
    let members = schemas[name]["properties"].as_object().expect("the schema is one of an object");
    members.keys().cloned().collect()
}

fn fits(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let place = reference.trim_start_matches('#');
        let target = root.pointer(place).ok_or_else(|| format!("{reference} is not there"))?;
        return fits(root, target, value);
    }
    if let Some(choices) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        let faults: Vec<String> =
            choices.iter().filter_map(|choice| fits(root, choice, value).err()).collect();
        return if faults.len() < choices.len() { Ok(()) } else { Err(faults.join("; ")) };
    }
    let wrong = |what: &str| Err(format!("{value} is not {what} of {schema}"));
    if schema["type"].as_str().is_some_and(|kind| !is_of(kind, value)) {
        return wrong("of the type");
    }
    if schema["enum"].as_array().is_some_and(|allowed| !allowed.contains(value)) {
        return wrong("among the values");
    }
    if schema.get("const").is_some_and(|only| only != value) {
        return wrong("the value");
    }
    if schema["format"] == "date-time" && !is_time(value) {
        return wrong("a time");
    }
    members(root, schema, value)?;
    for item in value.as_array().into_iter().flatten() {
        fits(root, &schema["items"], item)?;
    }
    Ok(())
}

fn members(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let Some(object) = value.as_object() else { return Ok(()) };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !object.contains_key(name) {
            return Err(format!("{name} is missing"));
        }
    }
    for (name, member) in object {
        let schema = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
        fits(root, schema, member).map_err(|fault| format!("{name}: {fault}"))?;
    }
    Ok(())
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

fn is_time(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.len() == 24 && text.ends_with('Z') && text.as_bytes()[10] == b'T')
}
