//! Records of nodes: what is read, what is refused, and the header of the load.

use proptest::prelude::*;
use serde_json::{Value, json};
use wire::node::{NodeLoad, NodePush, NodeRecord, NodeState};

fn push() -> Value {
    serde_json::from_str(include_str!("../../../fuzz/seeds/node_record/push.json")).unwrap()
}

fn parse(value: &Value) -> Result<NodePush, wire::Fault> {
    NodePush::parse(value.to_string().as_bytes())
}

/// The seed with one value in the place of another.
fn with(pointer: &str, value: Value) -> Value {
    let mut push = push();
    *push.pointer_mut(pointer).unwrap() = value;
    push
}

#[test]
fn a_push_is_read_as_it_was_written() {
    let read = parse(&push()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), push());
    assert_eq!((read.record.state, read.record.models[0].step_times.len()), (NodeState::Ready, 3));
    let record = push()["record"].to_string();
    assert_eq!(NodeRecord::parse(record.as_bytes()).unwrap(), read.record);
}

#[test]
fn little_is_enough_and_more_is_ignored() {
    let id = "0".repeat(32);
    let record =
        json!({"id": id, "sequence": 0, "version": "1", "uptime_s": 0, "state": "starting", "new": [1]});
    let read = parse(&json!({"advertise": "https://n1.example", "record": record})).unwrap();
    assert!(read.record.models.is_empty() && read.record.load == NodeLoad::default());
}

#[test]
fn a_record_out_of_bounds_is_refused_by_name() {
    let many = |n: usize| Value::from(vec![push()["record"]["models"][0].clone(); n]);
    for (pointer, value, named) in [
        ("/advertise", json!("ftp://host"), "advertise"),
        ("/advertise", json!("http:///etc"), "advertise"),
        ("/advertise", json!("http://user:pass@host"), "advertise"),
        ("/advertise", json!("http://a b"), "advertise"),
        ("/advertise", json!(format!("http://{}", "a".repeat(2_048))), "advertise"),
        ("/record/id", json!("1"), "record.id"),
        ("/record/version", json!("a".repeat(257)), "record.version"),
        ("/record/tier", json!("a\nb"), "record.tier"),
        ("/record/sequence", json!(u64::MAX), "record.sequence"),
        ("/record/models", many(1_025), "record.models"),
        ("/record/models/0/names", json!([]), "record.models[0].names"),
        ("/record/models/0/names", json!(vec!["a"; 65]), "record.models[0].names"),
        ("/record/models/0/context", json!(u64::MAX), "record.models[0].context"),
        ("/record/models/0/prompt_tokens_per_s", json!(-1.0), "record.models[0].prompt_tokens_per_s"),
        ("/record/models/0/step_times/0/rows", json!(4), "record.models[0].step_times"),
        ("/record/models/0/step_times/0/ms", json!(1e300), "record.models[0].step_times"),
        (
            "/record/models/0/step_times",
            json!(vec![json!({"rows": 1, "ms": 1}); 9]),
            "record.models[0].step_times",
        ),
    ] {
        let fault = parse(&with(pointer, value)).unwrap_err();
        assert_eq!((fault.status, fault.param.as_deref()), (400, Some(named)), "{pointer}: {fault}");
    }
    for (pointer, value) in [
        ("/record/state", json!("\u{1}asleep")),
        ("/record/load/running", json!(-1)),
        ("/record/load/running", json!(1.5)),
        ("/record/models", json!({})),
    ] {
        let fault = parse(&with(pointer, value)).unwrap_err();
        assert!(
            fault.status == 400 && fault.message.starts_with("the record is not one"),
            "{pointer}: {fault}"
        );
        assert!(!fault.message.chars().any(char::is_control), "{fault:?}");
    }
    let long = format!("{}{}", push(), " ".repeat(1 << 20));
    assert!(NodePush::parse(long.as_bytes()).unwrap_err().message.contains("1048576"));
    let twice = br#"{"advertise": "http://a", "advertise": "http://b"}"#;
    assert_eq!(NodePush::parse(twice).unwrap_err().code, Some("invalid_json"));
}

#[test]
fn a_load_in_a_header() {
    let load = NodeLoad { running: 3, waiting: 0, backlog_tokens: 1520 };
    assert_eq!(load.header(), "running=3, waiting=0, backlog=1520");
    assert_eq!(NodeLoad::read_header("running=3, waiting=0, backlog=1520"), Some(load));
    assert_eq!(NodeLoad::read_header("backlog=1520,later=x, running=3"), Some(load));
    for none in ["", "running", "running=", "running=-1", "running=1.5", "running=99999999999999999999", "a"]
    {
        assert_eq!(NodeLoad::read_header(none), None, "{none}");
    }
    assert_eq!(NodeLoad::read_header(&"running=1,".repeat(100)), None);
}

proptest! {
    /// Whatever is in a header, it is a load that says so, or none.
    #[test]
    fn a_load_survives_its_header(running in 0..1u64 << 53, waiting in 0..1u64 << 53, backlog_tokens in 0..1u64 << 53) {
        let load = NodeLoad { running, waiting, backlog_tokens };
        prop_assert_eq!(NodeLoad::read_header(&load.header()), Some(load));
    }
}
