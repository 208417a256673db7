//! `gristmill tune` as a process, on a tiny random model: what it prints, what it keeps, and who uses that.

#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use crate::support;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use support::{Tiny, failure, gristmill, json, keys, said, text};

fn notes(home: &Path) -> Vec<PathBuf> {
    let folder = std::fs::read_dir(home.join("notes/tuned"));
    folder.map_or(Vec::new(), |entries| entries.map(|entry| entry.unwrap().path()).collect())
}

/// What a server says when it is ready.
fn ready_line(home: &Path, args: &[&str]) -> String {
    let mut command = gristmill(home);
    command.args(["serve", "--port", "0"]).args(args).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines.map(Result::unwrap).find(|line| line.contains(" is ready after "));
    child.kill().unwrap();
    child.wait().unwrap();
    line.unwrap()
}

#[test]
fn what_is_found_is_kept_and_used_until_something_changes() {
    let (tiny, home) = (Tiny::new(), tempfile::tempdir().unwrap());
    let tune =
        |rest: &[&str]| gristmill(home.path()).arg("tune").arg(tiny.path()).args(rest).output().unwrap();
    let dry = said(&tune(&["--dry-run"]));
    assert!(dry.contains("pp128") && dry.contains("to decode, steps of "), "{dry}");
    assert!(notes(home.path()).is_empty() && !ready_line(home.path(), &[tiny.path()]).contains("tuned"));

    let report = json(&tune(&["--json", "--force"]));
    assert_eq!(
        keys(&report),
        ["at_s", "decode_threads", "prefill_chunk", "prefill_threads", "setting", "tried", "version"]
    );
    for tried in report["tried"].as_array().unwrap() {
        assert!(
            tried["tokens_per_s"].as_f64().unwrap() > 0.0 && tried["runs"].as_u64().unwrap() > 0,
            "{tried}"
        );
    }
    let note = notes(home.path()).pop().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&std::fs::read(&note).unwrap()).unwrap(), report);
    let line = ready_line(home.path(), &[tiny.path()]);
    let steps = format!("to decode, steps of {}", report["prefill_chunk"]);
    assert!(line.contains("tuned: ") && line.contains(&steps), "{line}");
    assert!(
        !ready_line(home.path(), &[tiny.path(), "--threads", "1"]).contains("tuned"),
        "the flag goes first"
    );

    // Measured on another CPU, and a file that is damaged: as if there were none.
    let mut other = report.clone();
    other["setting"]["cpu"] = "another".into();
    std::fs::write(&note, other.to_string()).unwrap();
    assert!(!ready_line(home.path(), &[tiny.path()]).contains("tuned"));
    std::fs::write(&note, &report.to_string()[..40]).unwrap();
    assert!(!ready_line(home.path(), &[tiny.path()]).contains("tuned"));
}

#[test]
fn no_model_and_no_place() {
    let home = tempfile::tempdir().unwrap();
    let tune = |args: &[&str]| gristmill(home.path()).arg("tune").args(args).output().unwrap();
    assert!(failure(&tune(&["no-such-model"]), 1).contains("no-such-model"));
    let tiny = Tiny::new();
    std::fs::write(home.path().join("notes"), "a file where a folder should be").unwrap();
    let blocked = tune(&[tiny.path(), "--json", "--force"]);
    assert_eq!(blocked.status.code(), Some(1));
    let said = text(&blocked.stderr);
    assert!(said.lines().last().unwrap().starts_with("error: ") && said.contains("notes"), "{said}");
}
