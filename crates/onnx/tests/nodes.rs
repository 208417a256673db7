//! The standard's tests of single operators (tools/fixtures/onnx_nodes.py), with a list of those that do not pass.

use onnx::{Options, RunOptions, Session, Value};
use serde_json::Value as Json;

use crate::fixtures::{folder, near, read, value};

/// Tests that fail, and why. One that passes must leave the list.
const FAILING: &[(&str, &str)] = &[
    ("test_clip_default_int8_inbounds", INTEGERS),
    ("test_reduce_max_bool_inputs", INTEGERS),
    ("test_reduce_max_empty_set_bool", INTEGERS),
    ("test_reduce_min_bool_inputs", INTEGERS),
    ("test_top_k_uint64", INTEGERS),
];

const INTEGERS: &str = "element types that no exporter of pipelines gives this operator";

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn passes(case: &Json) -> Result<(), String> {
    let session = Session::from_bytes(bytes(case["model"].as_str().unwrap()), &Options::default());
    let session = session.map_err(|error| error.to_string())?;
    let values = |side: &str| -> Vec<Value> { case[side].as_array().unwrap().iter().map(value).collect() };
    let (inputs, outputs) = (values("inputs"), values("outputs"));
    let inputs: Vec<(&str, &Value)> = session.inputs().iter().map(|info| &*info.name).zip(&inputs).collect();
    let wanted: Vec<&str> = session.outputs().iter().map(|info| &*info.name).collect();
    let found = session.run(&inputs, &wanted, &RunOptions::default()).map_err(|error| error.to_string())?;
    found.iter().zip(&outputs).try_for_each(|(found, wanted)| near(found, wanted, 2e-3 * half(wanted) + 2e-6))
}

/// 1 for values of half precision.
fn half(value: &Value) -> f64 {
    match value {
        Value::Tensor(tensor) if tensor.data().element().bytes() == 2 => 1.0,
        _ => 0.0,
    }
}

#[test]
fn operators_do_what_the_standard_says() {
    let cases = read(&folder("nodes.json"));
    let cases = cases.as_array().unwrap();
    assert!(cases.len() > 300, "{} tests", cases.len());
    let mut wrong = Vec::new();
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let listed = FAILING.iter().any(|row| row.0 == name);
        match passes(case) {
            Ok(()) if listed => wrong.push(format!("{name} passes: remove it from the list")),
            Err(problem) if !listed => wrong.push(format!("{name}: {problem}")),
            Ok(()) | Err(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
