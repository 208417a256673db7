//! Every keyword of JSON Schema's draft 2020-12: held to, an annotation, or refused with a reason, as
//! docs/structured-output.md has it.

use crate::support;

use serde_json::{Value, json};
use support::guided::Checker;

/// What becomes of a keyword.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    /// Held to: the first text can be an answer, the second cannot.
    Held(&'static str, &'static str),
    /// Says nothing about what is valid.
    Annotation,
    /// As far as the note says: past it, the client is told.
    Partly(&'static str, &'static str),
    Refused,
}

use Fate::{Annotation, Held, Partly, Refused};

/// Keyword, a schema with it, its fate, what the page says beside it.
fn keywords() -> Vec<(&'static str, Value, Fate, &'static str)> {
    let defs = json!({"a": {"type": "integer"}});
    vec![
        (
            "type",
            json!({"type": "integer"}),
            Held("1", "1.5"),
            "integers are written as such: `1`, not `1.0`",
        ),
        (
            "const",
            json!({"const": {"a": [1]}}),
            Held("{\"a\":[1]}", "{}"),
            "any value; numbers digit by digit",
        ),
        ("enum", json!({"enum": [1, "a", null]}), Held("\"a\"", "2"), "any values"),
        (
            "properties",
            json!({"type": "object", "properties": {"a": {"type": "integer"}}}),
            Held("{\"a\":1}", "{\"a\":\"\"}"),
            "written in the schema's order, the others after them",
        ),
        ("required", json!({"type": "object", "required": ["a"]}), Held("{\"a\":1}", "{}"), ""),
        (
            "additionalProperties",
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            Held("{\"a\":1}", "{\"a\":\"\"}"),
            "",
        ),
        (
            "patternProperties",
            json!({"type": "object", "patternProperties": {"^a": {"type": "integer"}}}),
            Held("{\"ab\":1}", "{\"ab\":\"\"}"),
            "also where patterns overlap",
        ),
        (
            "propertyNames",
            json!({"type": "object", "propertyNames": {"maxLength": 2}}),
            Held("{\"ab\":1}", "{\"abc\":1}"),
            "",
        ),
        (
            "minProperties",
            json!({"type": "object", "minProperties": 1}),
            Held("{\"a\":1}", "{}"),
            "with a warning from 2 on where keys are free: an answer may repeat one",
        ),
        (
            "maxProperties",
            json!({"type": "object", "maxProperties": 1}),
            Held("{\"a\":1}", "{\"a\":1,\"b\":1}"),
            "",
        ),
        (
            "unevaluatedProperties",
            json!({"type": "object", "allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": false}),
            Held("{\"a\":1}", "{\"b\":1}"),
            "",
        ),
        (
            "dependentRequired",
            json!({"type": "object", "dependentRequired": {"a": ["b"]}, "properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "additionalProperties": false}),
            Held("{\"b\":null}", "{\"a\":null}"),
            "",
        ),
        (
            "dependentSchemas",
            json!({"type": "object", "dependentSchemas": {"a": {"required": ["b"]}}, "properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "additionalProperties": false}),
            Held("{\"b\":null}", "{\"a\":null}"),
            "",
        ),
        (
            "items",
            json!({"type": "array", "items": {"type": "integer"}}),
            Held("[1]", "[null]"),
            "draft 7's list of schemas too",
        ),
        (
            "prefixItems",
            json!({"type": "array", "prefixItems": [{"type": "integer"}]}),
            Held("[1]", "[null]"),
            "",
        ),
        ("minItems", json!({"type": "array", "minItems": 1}), Held("[1]", "[]"), ""),
        ("maxItems", json!({"type": "array", "maxItems": 1}), Held("[1]", "[1,2]"), ""),
        (
            "uniqueItems",
            json!({"type": "array", "uniqueItems": true, "items": {"enum": ["a", "b"]}}),
            Partly("[\"a\"]", "[\"a\",\"a\"]"),
            "for items that are one of at most 8 texts; else dropped with a warning",
        ),
        (
            "contains",
            json!({"type": "array", "contains": {"const": 1}}),
            Held("[1]", "[2]"),
            "refused beside `prefixItems`, `maxItems`, or a `minItems` above `minContains`",
        ),
        (
            "minContains",
            json!({"type": "array", "contains": {"const": 1}, "minContains": 2}),
            Held("[1,1]", "[1]"),
            "up to 64",
        ),
        ("maxContains", json!({"type": "array", "contains": {"const": 1}, "maxContains": 2}), Refused, ""),
        (
            "unevaluatedItems",
            json!({"type": "array", "prefixItems": [{"type": "integer"}], "unevaluatedItems": false}),
            Held("[1]", "[1,2]"),
            "refused beside `allOf`, `anyOf`, `$ref` …",
        ),
        ("minimum", json!({"type": "number", "minimum": 1.5}), Held("1.5", "1.4"), "to the last digit"),
        ("maximum", json!({"type": "number", "maximum": 1.5}), Held("1.5", "1.6"), "to the last digit"),
        (
            "exclusiveMinimum",
            json!({"type": "number", "exclusiveMinimum": 1}),
            Held("1.01", "1"),
            "draft 4's `true` too",
        ),
        (
            "exclusiveMaximum",
            json!({"type": "number", "exclusiveMaximum": 1}),
            Held("0.99", "1"),
            "draft 4's `true` too",
        ),
        (
            "multipleOf",
            json!({"type": "number", "multipleOf": 0.25}),
            Partly("0.75", "0.3"),
            "where the last 4 digits tell (0.01, 5, 125), and small integers; else refused",
        ),
        ("minLength", json!({"type": "string", "minLength": 2}), Held("\"ab\"", "\"a\""), "in characters"),
        ("maxLength", json!({"type": "string", "maxLength": 1}), Held("\"a\"", "\"ab\""), "in characters"),
        (
            "pattern",
            json!({"type": "string", "pattern": "^a(?!b)"}),
            Held("\"ac\"", "\"ab\""),
            "[what is understood](#regular-expressions)",
        ),
        (
            "format",
            json!({"type": "string", "format": "date"}),
            Partly("\"2024-02-29\"", "\"2023-02-29\""),
            "[which](#formats)",
        ),
        (
            "$ref",
            json!({"$ref": "#/$defs/a", "$defs": defs}),
            Held("1", "null"),
            "within the schema, by pointer, `$anchor` or `$id`; to other documents refused",
        ),
        ("$dynamicRef", json!({"$dynamicRef": "#/$defs/a", "$defs": defs}), Held("1", "null"), "as `$ref`"),
        ("allOf", json!({"allOf": [{"type": "integer"}, {"minimum": 2}]}), Held("2", "1"), ""),
        ("anyOf", json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), Held("null", "\"\""), ""),
        (
            "oneOf",
            json!({"oneOf": [{"type": "number"}, {"type": "integer"}]}),
            Held("1.5", "1"),
            "as `anyOf` with a warning where options overlap and their opposites have no form",
        ),
        (
            "not",
            json!({"not": {"type": "string"}}),
            Held("1", "\"\""),
            "refused around what has no opposite here: `patternProperties`, `oneOf`, `contains` …",
        ),
        (
            "if",
            json!({"type": "integer", "if": {"minimum": 5}, "then": {"multipleOf": 5}}),
            Held("10", "6"),
            "as `not` is",
        ),
        (
            "then",
            json!({"type": "integer", "if": {"minimum": 5}, "then": {"multipleOf": 5}}),
            Held("4", "7"),
            "",
        ),
        (
            "else",
            json!({"type": "integer", "if": {"minimum": 5}, "else": {"maximum": 2}}),
            Held("1", "3"),
            "",
        ),
        ("$defs", json!({"$defs": defs}), Annotation, "read where `$ref` leads; `definitions` too"),
        ("$id", json!({"$id": "https://example.com/a"}), Annotation, "for `$ref`"),
        ("$anchor", json!({"$anchor": "a"}), Annotation, "for `$ref`"),
        ("$dynamicAnchor", json!({"$dynamicAnchor": "a"}), Annotation, "for `$dynamicRef`"),
        ("$schema", json!({"$schema": "https://json-schema.org/draft/2020-12/schema"}), Annotation, ""),
        ("$vocabulary", json!({"$vocabulary": {}}), Annotation, ""),
        ("$comment", json!({"$comment": "a"}), Annotation, ""),
        ("title", json!({"title": "a"}), Annotation, ""),
        ("description", json!({"description": "a"}), Annotation, ""),
        ("default", json!({"default": 1}), Annotation, ""),
        ("deprecated", json!({"deprecated": true}), Annotation, ""),
        ("readOnly", json!({"readOnly": true}), Annotation, ""),
        ("writeOnly", json!({"writeOnly": true}), Annotation, ""),
        ("examples", json!({"examples": [1]}), Annotation, ""),
        ("contentEncoding", json!({"contentEncoding": "base64"}), Annotation, "as the standard has it"),
        ("contentMediaType", json!({"contentMediaType": "text/html"}), Annotation, "as the standard has it"),
        (
            "contentSchema",
            json!({"contentSchema": {"type": "integer"}}),
            Annotation,
            "as the standard has it",
        ),
    ]
}

#[test]
fn every_keyword_is_held_to_or_told_of() {
    let checker = Checker::new();
    for (keyword, schema, fate, _) in keywords() {
        assert!(schema.get(keyword).is_some(), "{keyword}");
        let guidance = checker.guidance(&schema);
        if fate == Refused {
            let reason = guidance.err().unwrap_or_else(|| panic!("{keyword} is taken"));
            assert!(reason.contains(keyword) && reason.contains('#'), "{reason}");
            continue;
        }
        let guidance = guidance.unwrap_or_else(|reason| panic!("{schema}: {reason}"));
        assert!(guidance.warnings().is_empty(), "{keyword}: {:?}", guidance.warnings());
        let (yes, no) = match fate {
            Held(yes, no) | Partly(yes, no) => (yes, Some(no)),
            Annotation | Refused => ("1", None),
        };
        assert!(checker.accepts(&guidance, yes), "{schema} refuses {yes}");
        assert!(no.is_none_or(|no| !checker.accepts(&guidance, no)), "{schema} takes {no:?}");
    }
}

/// A keyword that counts is never passed over because its value is of another type.
#[test]
fn values_of_the_wrong_type_are_refused_by_name() {
    let checker = Checker::new();
    for (keyword, mut schema, fate, _) in keywords() {
        if fate == Annotation || matches!(keyword, "const" | "if" | "then" | "else") {
            continue;
        }
        for wrong in [json!(-1.5), json!("spoon"), json!([1]), json!({"a": 7})] {
            let fits = match keyword {
                "minimum" | "maximum" => wrong.is_number(),
                "exclusiveMinimum" | "exclusiveMaximum" => wrong.is_number(),
                "pattern" | "format" => wrong.is_string(),
                "enum" => wrong.is_array(),
                _ => false,
            };
            if fits {
                continue;
            }
            schema[keyword] = wrong.clone();
            match checker.guidance(&schema) {
                Err(reason) => assert!(
                    reason.contains(keyword)
                        || reason.contains("must be a schema")
                        || reason.starts_with("no value meets it")
                        || reason.contains("$ref"),
                    "{schema}: {reason}"
                ),
                // `{"a": 7}` is a schema whose keyword nobody knows.
                Ok(guidance) => assert!(!guidance.warnings().is_empty(), "{schema} is taken"),
            }
        }
    }
}

#[test]
fn the_page_lists_them() {
    let mut table = String::from("| keyword | |\n|---|---|\n");
    for (keyword, _, fate, note) in keywords() {
        let fate = match fate {
            Held(..) => "held",
            Partly(..) => "held in part",
            Annotation => "annotation",
            Refused => "refused",
        };
        let sign = if note.is_empty() { "" } else { ": " };
        table.push_str(&format!("| `{keyword}` | {fate}{sign}{note} |\n"));
    }
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/structured-output.md");
    let text = std::fs::read_to_string(&page).expect("the page");
    assert!(text.contains(&table), "docs/structured-output.md must have this table:\n{table}");
}
