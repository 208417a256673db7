//! Schemas and expressions that once were answered wrongly, refused, or followed without an end.

use crate::support;

use serde_json::{Map, Value, json};
use support::guided::Checker;
use text::{AnswerConstraint, JsonSpacing, Schema};

fn refused(checker: &Checker, form: AnswerConstraint) -> String {
    match checker.of(&form) {
        Ok(_) => panic!("{form:?} is taken"),
        Err(reason) => reason,
    }
}

#[test]
fn fault_06_a_long_number_is_given_back_digit_by_digit() {
    let checker = Checker::new();
    let digits = "12345678901234567890123";
    let read: Value = serde_json::from_str(&format!("{{\"const\": {digits}}}")).expect("JSON");
    let form = |value: &Value, at: &str, digits: &str| {
        let exact = vec![(at.to_owned(), digits.to_owned())];
        AnswerConstraint::Json(Schema { exact, ..value.clone().into() })
    };
    let guidance = checker.of(&form(&read, "/const", digits)).expect("a form");
    assert!(checker.accepts(&guidance, digits));
    assert!(!checker.accepts(&guidance, &read["const"].to_string()));
    assert!(!checker.accepts(&guidance, "12345678901234567890124"));
    // Inside of others, as bounds, and behind the point.
    let nested = json!({"type": "object", "properties": {"n": {"enum": [1, 0.1]}}, "required": ["n"]});
    let guidance = checker
        .of(&form(&nested, "/properties/n/enum/1", "0.1000000000000000055511151231257827"))
        .expect("a form");
    assert!(checker.accepts(&guidance, "{\"n\":0.1000000000000000055511151231257827}"));
    assert!(!checker.accepts(&guidance, "{\"n\":0.1}"));
    let bounds = json!({"type": "integer", "minimum": 1e23, "maximum": 2e23});
    let guidance = checker.of(&form(&bounds, "/minimum", "100000000000000000000001")).expect("a form");
    assert!(checker.accepts(&guidance, "100000000000000000000001"));
    assert!(!checker.accepts(&guidance, "100000000000000000000000"));
    let guidance = checker.of(&AnswerConstraint::json(json!({"const": -0.0}))).expect("a form");
    assert!(checker.accepts(&guidance, "-0.0"));
}

#[test]
fn fault_06_an_expression_that_is_none_is_refused() {
    let checker = Checker::new();
    for (regex, word) in [
        ("x\\", "backslash"),
        ("(", "not closed"),
        (")", "bracket"),
        ("[a", "not closed"),
        ("*a", "repetition of nothing"),
        ("a{3,2}", "wrong way round"),
        ("[z-a]", "wrong way round"),
        ("\\q", "\\q"),
        ("\\p{Nothing}", "property"),
        ("(?z)", "group"),
        ("\\u12", "character"),
    ] {
        for form in [
            AnswerConstraint::Regex(regex.into()),
            AnswerConstraint::json(json!({"type": "string", "pattern": regex})),
        ] {
            let reason = refused(&checker, form);
            assert!(reason.contains(word), "{regex}: {reason}");
        }
    }
}

#[test]
fn fault_06_digits_of_an_expression_are_ascii() {
    let checker = Checker::new();
    let guidance = checker.of(&AnswerConstraint::Regex(r"\d\w\s[\d]\D\W\S".into())).expect("a form");
    assert!(checker.accepts(&guidance, "1a 2x-y"));
    for other in ["\u{661}a 2x-y", "1\u{e4} 2x-y", "1a\u{a0}2x-y", "1a \u{661}x-y"] {
        assert!(!checker.accepts(&guidance, other), "{other}");
    }
    let guidance = checker.guidance(&json!({"type": "string", "pattern": r"^\d+$"})).expect("a form");
    assert!(checker.accepts(&guidance, "\"12\"") && !checker.accepts(&guidance, "\"\u{661}\""));
}

#[test]
fn expressions_match_what_they_say() {
    let checker = Checker::new();
    for (regex, yes, no) in [
        ("a|b", &["a", "b"][..], &["ab", ""][..]),
        ("^(a|bc)+$", &["abca"], &["", "b"]),
        (r"(?i)AbC", &["abc", "ABC"], &["abd"]),
        (r"(?:(?i:a)b)+", &["Abab"], &["aB"]),
        (r"(?P<year>\d{4})-(?<month>\d\d)", &["2024-01"], &["2024-1"]),
        (r"[^a-c]x[\]\-]", &["dx]", "dx-"], &["ax]"]),
        (r"\x41\u0042\u{43}\cA", &["ABC\u{1}"], &["ABC"]),
        (r"\ud83d\ude00", &["\u{1f600}"], &["a"]),
        (r"(?=.*\d)(?=.*[a-z]).{4,6}", &["abc1", "1aaaaa"], &["abcd", "12345", "a1"]),
        (r"(?!ab)\w+", &["ba", "aa"], &["ab", "abc"]),
        (r"\w+(?!x)", &["a"], &[""]),
        (r"a(?=b)bc|ad", &["abc", "ad"], &["ac"]),
        (r"\p{Lu}\p{L}*", &["\u{c4}rger"], &["\u{e4}rger"]),
        (r"a{,2}b", &["b", "aab"], &["aaab"]),
        ("a/b\\/c", &["a/b/c"], &["a/b\\/c"]),
        (".", &["a", "\r"], &["\n", ""]),
        ("(?s).", &["\n"], &[""]),
        ("\\Aab\\Z", &["ab"], &["abc"]),
        ("x{1}y{2,}z?", &["xyy", "xyyyz"], &["xy"]),
        ("{}", &["{}"], &[""]),
    ] {
        let guidance =
            checker.of(&AnswerConstraint::Regex(regex.into())).unwrap_or_else(|e| panic!("{regex}: {e}"));
        assert!(guidance.warnings().is_empty(), "{regex}: {:?}", guidance.warnings());
        for text in yes {
            assert!(checker.accepts(&guidance, text), "{regex} refuses {text:?}");
        }
        for text in no.iter().filter(|text| !text.is_empty()) {
            assert!(!checker.accepts(&guidance, text), "{regex} takes {text:?}");
        }
    }
    for (regex, dropped) in
        [(r"\bab\b", "\\b"), (r"(?<=a)b", "(?<=a)"), (r"(a)\1", "\\1"), (r"(?:(?!x).)*y", "(?!x)")]
    {
        let guidance =
            checker.of(&AnswerConstraint::Regex(regex.into())).unwrap_or_else(|e| panic!("{regex}: {e}"));
        assert!(
            guidance.warnings().iter().any(|w| w.contains(dropped)),
            "{regex}: {:?}",
            guidance.warnings()
        );
    }
    // In a string, quotation marks and line ends are escaped.
    let guidance = checker.guidance(&json!({"type": "string", "pattern": "^[\"\\n\\\\]+$"})).expect("a form");
    assert!(checker.accepts(&guidance, r#""\"\n\\""#) && !checker.accepts(&guidance, "\"a\""));
}

#[test]
fn fault_14_strict_closes_objects_at_any_depth() {
    let checker = Checker::new();
    let value = json!({"$defs": {"in": {"type": "object", "properties": {"b": {"type": "integer"}}}},
        "type": "object", "properties": {"a": {"$ref": "#/$defs/in"}, "list": {"type": "array", "items": {"$ref": "#/$defs/in"}},
        "open": {"type": "object", "additionalProperties": {"type": "integer"}}}});
    let of = |closed| {
        checker.of(&AnswerConstraint::Json(Schema { closed, ..value.clone().into() })).expect("a form")
    };
    let (open, closed) = (of(false), of(true));
    for more in [r#"{"x":1}"#, r#"{"a":{"b":1,"x":1}}"#, r#"{"list":[{"x":1}]}"#] {
        assert!(checker.accepts(&open, more) && !checker.accepts(&closed, more), "{more}");
    }
    for fits in [r#"{"a":{"b":1}}"#, r#"{"open":{"x":1}}"#, r#"{"list":[{"b":1},{}]}"#] {
        assert!(checker.accepts(&open, fits) && checker.accepts(&closed, fits), "{fits}");
    }
    let parts = json!({"allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "integer"}}}], "type": "object"});
    let both = checker.of(&AnswerConstraint::Json(Schema { closed: true, ..parts.into() })).expect("a form");
    assert!(checker.accepts(&both, r#"{"a":1,"b":2}"#) && !checker.accepts(&both, r#"{"c":1}"#));
}

#[test]
fn fault_14_no_runs_of_space() {
    let checker = Checker::new();
    let value = json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}, "b": {"type": "null"}}});
    let of = |space| {
        checker.of(&AnswerConstraint::Json(Schema { space, ..value.clone().into() })).expect("a form")
    };
    let one = of(JsonSpacing::One);
    for fits in [r#"{"a":[1,2],"b":null}"#, r#"{"a": [1, 2], "b": null}"#] {
        assert!(checker.accepts(&one, fits), "{fits}");
    }
    let spaced = [
        r#"{ "a":[]}"#,
        r#"{"a" :[]}"#,
        r#"{"a":  []}"#,
        r#"{"a":[] }"#,
        "{\"a\":\n[]}",
        r#"{"a":[1 ,2]}"#,
        r#"{"a":[1,  2]}"#,
    ];
    for more in spaced {
        assert!(!checker.accepts(&one, more), "{more}");
    }
    let compact = of(JsonSpacing::Compact);
    assert!(
        checker.accepts(&compact, r#"{"a":[1,2],"b":null}"#) && !checker.accepts(&compact, r#"{"a": []}"#)
    );
    let free = of(JsonSpacing::Pattern(r"[ \n]{0,4}".into()));
    assert!(
        checker.accepts(&free, "{\n  \"a\": [ 1,\n 2 ]\n}") && !checker.accepts(&free, "{      \"a\":[]}")
    );
    let reason = refused(
        &checker,
        AnswerConstraint::Json(Schema { space: JsonSpacing::Pattern("[ a]*".into()), ..value.into() }),
    );
    assert!(reason.contains("not space"), "{reason}");
}

/// A schema without an end is refused before it runs to the last token, and so is one that contradicts itself.
#[test]
fn fault_schemas_that_nothing_meets_are_refused_with_the_reason() {
    let checker = Checker::new();
    let node =
        json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]});
    for (schema, word) in [
        (json!({"$defs": {"node": node}, "$ref": "#/$defs/node"}), "without an end"),
        (json!({"type": "array", "items": {"$ref": "#"}, "minItems": 1}), "without an end"),
        (json!({"$ref": "#"}), "back to itself"),
        (json!({"not": {"$ref": "#/$defs/a"}, "$defs": {"a": {"$ref": "#/$defs/a"}}}), "back to itself"),
        (json!({"enum": []}), "lists no value"),
        (json!({"type": "integer", "minimum": 5, "maximum": 4}), "minimum 5"),
        (json!({"type": "integer", "minimum": 1.2, "maximum": 1.8}), "no integer"),
        (json!({"type": "string", "minLength": 5, "maxLength": 4}), "minLength 5"),
        (json!({"type": "string", "pattern": "^a$", "minLength": 3}), "no string"),
        (json!({"type": "array", "minItems": 3, "maxItems": 2}), "at least 3"),
        (json!({"type": "object", "properties": {"a": false}, "required": ["a"]}), "\"a\""),
        (json!({"type": "object", "required": ["a"], "additionalProperties": false}), "\"a\""),
        (
            json!({"type": "object", "minProperties": 2, "properties": {"a": {}}, "additionalProperties": false}),
            "at least 2",
        ),
        (json!({"allOf": [{"type": "string"}, {"type": "integer"}]}), "type"),
        (json!({"const": 5, "maximum": 4}), "lists no value"),
        (json!({"not": {}}), "options"),
        (json!(false), "false"),
    ] {
        let reason = refused(&checker, AnswerConstraint::json(schema.clone()));
        assert!(
            reason.contains(word) && reason.contains("no value meets it") | reason.contains("back to itself"),
            "{schema}: {reason}"
        );
    }
    // What has a way out takes it.
    let list = json!({"$defs": {"node": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["next"], "additionalProperties": false}}, "$ref": "#/$defs/node"});
    let guidance = checker.guidance(&list).expect("a form");
    assert!(checker.accepts(&guidance, r#"{"next":{"next":null}}"#));
    // Options that refer to themselves say nothing new.
    let options = json!({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}, {"type": "null"}]}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}},
        "anyOf": [{"$ref": "#/$defs/b"}, {"type": "object", "propertyNames": {"$ref": "#/$defs/n"}}]});
    let mut options = options;
    options["$defs"]["n"] = json!({"anyOf": [{"$ref": "#/$defs/n"}, {"maxLength": 2}]});
    let guidance = checker.guidance(&options).expect("a form");
    assert!(checker.accepts(&guidance, "null") && checker.accepts(&guidance, r#"{"ab":1}"#));
    assert!(!checker.accepts(&guidance, "1") && !checker.accepts(&guidance, r#"{"abc":1}"#));
    // An optional property that cannot end is never begun.
    let optional = json!({"$defs": {"node": node}, "type": "object", "properties": {"a": {"type": "integer"}, "n": {"$ref": "#/$defs/node"}}, "additionalProperties": false});
    let guidance = checker.guidance(&optional).expect("a form");
    assert!(checker.accepts(&guidance, r#"{"a":1}"#) && !checker.accepts(&guidance, r#"{"n":{"next":{}}}"#));
}

fn optional(count: usize, closed: bool) -> Value {
    let properties: Map<String, Value> =
        (0..count).map(|i| (format!("property_{i}"), json!({"type": "string"}))).collect();
    json!({"type": "object", "properties": properties, "additionalProperties": !closed})
}

#[test]
fn fault_schemas_of_hundreds_of_optional_properties_compile() {
    let checker = Checker::new();
    for closed in [true, false] {
        let started = std::time::Instant::now();
        let guidance = checker.guidance(&optional(600, closed)).unwrap_or_else(|e| panic!("{closed}: {e}"));
        println!("600 properties, closed {closed}: {:?}", started.elapsed());
        assert!(checker.accepts(&guidance, r#"{"property_3":"a","property_590":"b"}"#));
        assert!(!checker.accepts(&guidance, r#"{"property_590":"a","property_3":"b"}"#));
        assert_eq!(checker.accepts(&guidance, r#"{"other":"a"}"#), !closed);
        println!("and followed: {:?}", started.elapsed());
    }
}

#[test]
fn fault_schemas_of_forty_objects_of_twenty_optional_keys_compile() {
    let checker = Checker::new();
    for closed in [true, false] {
        let options: Vec<Value> = (0..40)
            .map(|i| {
                let properties: Map<String, Value> =
                    (0..20).map(|k| (format!("key_{i}_{k}"), json!({"type": ["string", "null"]}))).collect();
                json!({"type": "object", "properties": properties, "additionalProperties": !closed})
            })
            .collect();
        let started = std::time::Instant::now();
        let guidance =
            checker.guidance(&json!({ "anyOf": options })).unwrap_or_else(|e| panic!("{closed}: {e}"));
        println!("40 objects, closed {closed}: {:?}", started.elapsed());
        assert!(checker.accepts(&guidance, r#"{"key_7_3":"a","key_7_19":null}"#));
        assert_eq!(checker.accepts(&guidance, r#"{"key_7_3":"a","key_8_3":null}"#), !closed);
        println!("and followed: {:?}", started.elapsed());
    }
}
