//! `gristmill serve` as a process: what it refuses at the start.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::support;

use std::net::TcpListener;

/// The exit code, and the line that begins with `error:`.
fn failure(arguments: &[&str]) -> (Option<i32>, String) {
    let output = support::run(&[&["serve"], arguments].concat());
    let text = support::text(&output.stderr);
    let lines: Vec<&str> = text.lines().filter(|l| l.starts_with("error:")).collect();
    assert_eq!(lines.len(), 1, "{arguments:?}: {text}");
    assert!(output.stdout.is_empty());
    (output.status.code(), lines[0].to_owned())
}

#[test]
fn an_open_address_needs_a_key() {
    let (code, line) = failure(&["--host", "0.0.0.0", "--port", "0"]);
    assert_eq!(code, Some(2));
    assert!(line.contains("0.0.0.0") && line.contains("--insecure-no-auth"), "{line}");
}

#[test]
fn a_port_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (code, line) = failure(&["--port", &port]);
    assert_eq!(
        (code, line),
        (
            Some(1),
            format!("error: port {port} on 127.0.0.1 is in use by another program; choose one with --port")
        )
    );
}

#[test]
fn a_model_that_is_not_there() {
    for model in ["nosuchmodel", "./nosuch.gguf"] {
        let (code, line) = failure(&[model, "--port", "0"]);
        assert_eq!(code, Some(1));
        assert!(line.contains("nosuch"), "{line}");
    }
}

#[test]
fn a_file_that_is_no_model() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.gguf");
    std::fs::write(&file, b"GGUF\x03\0\0\0").unwrap();
    let (code, line) = failure(&[file.to_str().unwrap(), "--port", "0"]);
    assert_eq!(code, Some(1));
    assert!(line.contains("m.gguf"), "{line}");
}

#[test]
fn bad_flags() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("keys");
    std::fs::write(&empty, "# none yet\n").unwrap();
    let empty = empty.to_str().unwrap();
    for (arguments, code, word) in [
        (["--api-key-file", empty], 1, "no key"),
        (["--api-key-file", "/nonexistent/keys"], 1, "/nonexistent/keys"),
        (["--api-key", "two words"], 2, "visible ASCII"),
        (["--parallel", "0"], 2, "1..=256"),
        (["--max-body", "12"], 2, "1024"),
        (["--max-body", "4X"], 2, "unit"),
        (["--port", "70000"], 2, "70000"),
    ] {
        let (found, line) = failure(&arguments);
        assert_eq!(found, Some(code), "{arguments:?}: {line}");
        assert!(line.contains(word), "{arguments:?}: {line}");
        assert!(!line.contains("two words"), "a key must not be printed: {line}");
    }
}
