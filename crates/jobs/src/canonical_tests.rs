#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use super::*;
use crate::idempotency::fingerprint;
use proptest::prelude::*;
use serde_json::Value;

/// JSON, its canonical form and its fingerprint by Python's `json` and `hashlib`.
const CASES: &str = include_str!("../tests/fixtures/canonical.jsonl");

#[test]
fn forms_are_those_of_python() {
    for case in CASES.lines() {
        let case: Value = serde_json::from_str(case).unwrap();
        let source = case["json"].as_str().unwrap();
        assert_eq!(canonical_json(source.as_bytes()).as_deref(), case["canonical"].as_str(), "{source}");
        assert_eq!(fingerprint(source.as_bytes()), case["fingerprint"].as_str().unwrap(), "{source}");
    }
}

#[test]
fn names_are_sorted_and_the_last_of_a_name_counts() {
    let form =
        canonical_json(br#" { "b" : 1.50 , "a" : [ true , null ] , "b" : { } , "\u0061b":"\/" } "#).unwrap();
    assert_eq!(form, r#"{"a":[true,null],"ab":"/","b":{}}"#);
}

#[test]
fn what_is_no_json_has_no_form() {
    for bad in [&b""[..], b"{", b"nul", b"[1,]", b"{\"a\":1,}", b"01", b"\"\xFF\"", b"1 2", br#""\ud800""#] {
        assert_eq!(canonical_json(bad), None, "{bad:?}");
    }
}

#[test]
fn abuse_deep_json_has_no_form() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(canonical_json(nested(129).as_bytes()).as_deref(), Some(nested(129).as_str()));
    assert_eq!(canonical_json(nested(130).as_bytes()), None);
    assert_eq!(canonical_json(nested(1_000_000).as_bytes()), None);
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((".{0,3}", inner), 0..5).prop_map(|all| all.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn a_form_means_the_same_and_is_its_own_form(value in values()) {
        let compact = canonical_json(value.to_string().as_bytes()).unwrap();
        let pretty = canonical_json(serde_json::to_string_pretty(&value).unwrap().as_bytes()).unwrap();
        prop_assert_eq!(&compact, &pretty);
        prop_assert_eq!(serde_json::from_str::<Value>(&compact).unwrap(), value);
        prop_assert_eq!(canonical_json(compact.as_bytes()), Some(compact));
    }

    #[test]
    fn any_bytes_have_a_form_if_they_are_json(bytes in "[\\[\\]{}\",:0a\\\\ u-]{0,12}") {
        let is_json = serde_json::from_str::<Value>(&bytes).is_ok();
        prop_assert_eq!(canonical_json(bytes.as_bytes()).is_some(), is_json);
    }
}
