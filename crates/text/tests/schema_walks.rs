//! What a schema lets an answer be meets the schema: random schemas, random answers, and a validator that knows nothing of grammars.

use crate::support;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Map, Value, json};
use support::guided::{Checker, Dice};

/// The keywords that the schemas below use, by the words of JSON Schema 2020-12.
fn valid(schema: &Value, value: &Value, root: &Value) -> bool {
    let Value::Object(rules) = schema else { return *schema == Value::Bool(true) };
    let kind = |name: &Value| match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.as_f64().is_some_and(|n| n.fract() == 0.0),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        other => panic!("type {other:?}"),
    };
    let list = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let same = |a: &Value, b: &Value| a == b || a.as_f64().is_some_and(|a| b.as_f64() == Some(a));
    let number = |limit: &Value, holds: fn(f64, f64) -> bool| {
        value.as_f64().is_none_or(|n| holds(n, limit.as_f64().expect("a number")))
    };
    let count = |size: Option<usize>, limit: &Value, holds: fn(u64, u64) -> bool| {
        size.is_none_or(|size| holds(size as u64, limit.as_u64().expect("a count")))
    };
    let length = value.as_str().map(|text| text.chars().count());
    let items = value.as_array();
    let fields = value.as_object();
    let prefix = rules.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
    rules.iter().all(|(name, rule)| match name.as_str() {
        "type" => rule.as_array().map_or_else(|| kind(rule), |kinds| kinds.iter().any(kind)),
        "enum" => list(rule).iter().any(|other| same(other, value)),
        "const" => same(rule, value),
        "minimum" => number(rule, |n, limit| n >= limit),
        "maximum" => number(rule, |n, limit| n <= limit),
        "exclusiveMinimum" => number(rule, |n, limit| n > limit),
        "exclusiveMaximum" => number(rule, |n, limit| n < limit),
        "minLength" => count(length, rule, |n, limit| n >= limit),
        "maxLength" => count(length, rule, |n, limit| n <= limit),
        "minItems" => count(items.map(Vec::len), rule, |n, limit| n >= limit),
        "maxItems" => count(items.map(Vec::len), rule, |n, limit| n <= limit),
        "minProperties" => count(fields.map(Map::len), rule, |n, limit| n >= limit),
        "maxProperties" => count(fields.map(Map::len), rule, |n, limit| n <= limit),
        "prefixItems" => items
            .is_none_or(|items| items.iter().zip(list(rule)).all(|(item, rule)| valid(&rule, item, root))),
        "items" => items.is_none_or(|items| items.iter().skip(prefix).all(|item| valid(rule, item, root))),
        "contains" => items.is_none_or(|items| items.iter().any(|item| valid(rule, item, root))),
        "required" => fields.is_none_or(|fields| {
            list(rule).iter().all(|name| fields.contains_key(name.as_str().expect("a name")))
        }),
        "properties" => fields.is_none_or(|fields| {
            fields.iter().all(|(name, field)| rule.get(name).is_none_or(|rule| valid(rule, field, root)))
        }),
        "additionalProperties" => fields.is_none_or(|fields| {
            let known = |name: &String| rules.get("properties").is_some_and(|p| p.get(name).is_some());
            fields.iter().all(|(name, field)| known(name) || valid(rule, field, root))
        }),
        "propertyNames" => fields
            .is_none_or(|fields| fields.keys().all(|name| valid(rule, &Value::from(name.as_str()), root))),
        "anyOf" => list(rule).iter().any(|rule| valid(rule, value, root)),
        "allOf" => list(rule).iter().all(|rule| valid(rule, value, root)),
        "oneOf" => list(rule).iter().filter(|rule| valid(rule, value, root)).count() == 1,
        "not" => !valid(rule, value, root),
        "if" => {
            let branch = if valid(rule, value, root) { "then" } else { "else" };
            rules.get(branch).is_none_or(|rule| valid(rule, value, root))
        }
        "then" | "else" | "$defs" => true,
        "$ref" => valid(
            root.pointer(rule.as_str().expect("a path").trim_start_matches('#')).expect("a definition"),
            value,
            root,
        ),
        other => panic!("keyword {other}"),
    })
}

/// Schemas of all keywords above, a few levels deep.
fn schema() -> impl Strategy<Value = Value> {
    let number =
        prop_oneof![(-20i64..20).prop_map(Value::from), (-40i64..40).prop_map(|n| json!(n as f64 / 4.0))];
    let scalar = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        number.clone(),
        "[a-c\"]{0,3}".prop_map(Value::from)
    ];
    let count = 0u64..4;
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!({"$ref": "#/$defs/d"})),
        scalar.clone().prop_map(|value| json!({ "const": value })),
        proptest::collection::vec(scalar, 1..4).prop_map(|values| json!({ "enum": values })),
        proptest::sample::subsequence(
            vec!["null", "boolean", "integer", "number", "string", "array", "object"],
            1..4
        )
        .prop_map(|types| json!({ "type": types })),
        (number.clone(), number.clone(), any::<bool>()).prop_map(|(a, b, whole)| {
            json!({"type": if whole { "integer" } else { "number" }, "minimum": a, "exclusiveMaximum": b})
        }),
        number.prop_map(|a| json!({ "maximum": a })),
        (count.clone(), count.clone())
            .prop_map(|(a, b)| json!({"type": "string", "minLength": a, "maxLength": b})),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let some = proptest::collection::vec(inner.clone(), 1..4);
        let named = proptest::collection::vec((proptest::sample::select(vec!["a", "b", "c", "d"]), inner.clone(), any::<bool>()), 0..4);
        prop_oneof![
            some.clone().prop_map(|all| json!({ "anyOf": all })),
            some.clone().prop_map(|all| json!({ "allOf": all })),
            some.prop_map(|all| json!({ "oneOf": all })),
            inner.clone().prop_map(|one| json!({ "not": one })),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c})),
            (inner.clone(), count.clone(), count.clone())
                .prop_map(|(one, a, b)| json!({"type": "array", "items": one, "minItems": a, "maxItems": b})),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({"type": "array", "prefixItems": [a], "items": b})),
            inner.clone().prop_map(|one| json!({"type": "array", "contains": one})),
            (named, prop_oneof![Just(json!(true)), Just(json!(false)), inner], count.clone(), 1u64..6).prop_map(
                |(fields, others, least, most)| {
                    let required: Vec<&str> = fields.iter().filter(|(_, _, required)| *required).map(|(name, ..)| *name).collect();
                    let fields: Map<String, Value> = fields.iter().map(|(name, one, _)| ((*name).to_owned(), one.clone())).collect();
                    json!({"type": "object", "properties": fields, "required": required, "additionalProperties": others,
                           "minProperties": least.min(1), "maxProperties": most})
                }
            ),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 300, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn what_is_said_meets_the_schema(schema in schema(), definition in schema(), seed in any::<u64>()) {
        thread_local!(static CHECKER: Checker = Checker::new());
        let mut root = if schema.is_object() { schema } else { json!({ "allOf": [schema] }) };
        // The validator above would follow a definition that leads to itself without an end.
        let definition = definition.to_string().replace(r##"{"$ref":"#/$defs/d"}"##, "true");
        root["$defs"] = json!({ "d": serde_json::from_str::<Value>(&definition).expect("JSON") });
        CHECKER.with(|checker| {
            let Ok(guidance) = checker.guidance(&root) else { return Ok(()) };
            let mut dice = Dice(seed);
            for _ in 0..6 {
                let Some(text) = checker.walk(&guidance, &mut dice, 120) else { continue };
                let value: Value = serde_json::from_str(&text).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
                prop_assert!(!guidance.warnings().is_empty() || valid(&root, &value, &root), "{}", text);
            }
            Ok(())
        })?;
    }
}
