//! `gristmill inspect` as a process, on files that the `gguf` package wrote (`python tools/fixtures/files.py`).

#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use crate::support;

use support::{failure, said};

fn fixture(name: &str) -> std::path::PathBuf {
    support::fixture("weights", name)
}

fn inspect(args: &[&str]) -> std::process::Output {
    support::run(&[&["inspect"], args].concat())
}

#[test]
fn json_holds_metadata_tensors_and_sums() {
    let path = fixture("every-type.gguf");
    let report = support::json(&inspect(&[path.to_str().unwrap(), "--json"]));
    assert_eq!(report["kind"], "GGUF");
    assert_eq!(report["metadata"]["test.uint64"], u64::MAX);
    assert_eq!(report["metadata"]["test.float32"], 0.1);
    assert_eq!(report["tensors"].as_array().unwrap().len(), 28);
    assert_eq!(report["tensors"][0]["shape"], serde_json::json!([3, 256]));
    let sum = |key: &str| -> u64 {
        report["formats"].as_array().unwrap().iter().map(|f| f[key].as_u64().unwrap()).sum()
    };
    assert_eq!(sum("tensors"), 28);
    assert_eq!(sum("parameters"), report["parameters"]);
    // It is no whole model: what is missing is said, and the rest is shown all the same.
    assert!(report["memory"].is_null());
    assert!(!report["memory_unknown"].as_str().unwrap().is_empty());
}

#[test]
fn the_table_is_for_the_eye() {
    let path = fixture("split-00002-of-00003.gguf");
    let shown = said(&inspect(&[path.to_str().unwrap()]));
    assert!(shown.contains("in 3 files") && shown.contains("tensors (5)"), "{shown}");
    assert!(shown.contains("blk.0.weight  Q8_0    2 × 64"), "{shown}");
}

#[test]
fn a_bad_file_is_one_line_and_exit_code_1() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bad.gguf");
    let mut bytes = std::fs::read(fixture("every-type.gguf")).unwrap();
    bytes.truncate(20_000);
    std::fs::write(&path, bytes).unwrap();
    let said = failure(&inspect(&[path.to_str().unwrap()]), 1);
    assert!(
        said.contains("bad.gguf is not a valid GGUF file") && said.contains("data section has"),
        "{said}"
    );
    assert_eq!(inspect(&[path.to_str().unwrap(), "--context", "0"]).status.code(), Some(2));
}
