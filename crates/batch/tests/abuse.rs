//! Input that is broken, hostile, or changes.

use crate::fake::{Fake, Folder, line, lines, run};
use batch::{Endpoint, Error, Order, Outcome};
use serde_json::{Value, json};

fn codes(folder: &Folder) -> Vec<String> {
    folder
        .rows("out.errors.jsonl")
        .iter()
        .map(|row| row["error"]["code"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn abuse_each_bad_line_costs_one_error() {
    let mut input = line("a", "one").into_bytes();
    input.extend_from_slice(b"{\n[1]\nnull\n{\"custom_id\":\"\xff\"}\n\n  \n");
    input.extend_from_slice(line("a", "two").as_bytes());
    input.extend_from_slice(line("b", "three").replace("/v1/chat", "/v1/drop").as_bytes());
    input.extend_from_slice(("[".repeat(100_000) + "\n").as_bytes());
    input.extend_from_slice(line("c", "four").trim_end().as_bytes());
    let folder = Folder::new("in.jsonl", input);
    let report = run(folder.options("out"), &Fake::new()).await.unwrap();
    assert_eq!((report.outcome, report.counts.malformed), (Outcome::SomeFailed, 7));
    let ids: Vec<Value> = folder.rows("out").iter().map(|row| row["custom_id"].clone()).collect();
    assert_eq!(ids, [json!("a"), json!("c")]);
    let json = "invalid_json_line";
    assert_eq!(codes(&folder), [json, json, json, json, "duplicate_custom_id", "invalid_url", json]);
    let places: Vec<u64> =
        folder.rows("out.errors.jsonl").iter().map(|row| row["error"]["line"].as_u64().unwrap()).collect();
    assert_eq!(places, [2, 3, 4, 5, 8, 9, 10]);
}

#[tokio::test]
async fn abuse_a_line_beyond_the_limit_is_an_error_and_one_at_the_limit_is_asked() {
    let long = "x".repeat(4 << 20);
    let at_limit = {
        let overhead = line("b", "").len() - 1;
        line("b", &"y".repeat((4 << 20) - overhead))
    };
    let folder = Folder::new("in.jsonl", line("a", &long) + &at_limit + &line("c", "short"));
    let report = run(folder.options("out"), &Fake::new()).await.unwrap();
    assert_eq!((report.counts.succeeded, codes(&folder)), (2, vec!["line_too_long".to_owned()]));
}

#[tokio::test]
async fn abuse_a_journal_that_is_no_journal_is_an_error() {
    let folder = Folder::new("in.jsonl", lines(3));
    std::fs::write(folder.path("out.gristmill"), "garbage ".repeat(1_000)).unwrap();
    let mut options = folder.options("out");
    assert!(matches!(run(options.clone(), &Fake::new()).await, Err(Error::Journal { .. })));
    options.force_new = true;
    assert_eq!(run(options, &Fake::new()).await.unwrap().outcome, Outcome::Complete);
}

#[tokio::test]
async fn abuse_a_header_of_many_columns_is_read() {
    let header: Vec<String> = (0..200_000).map(|number| number.to_string()).collect();
    let folder = Folder::new("in.csv", header.join(",") + "\n1,2\n");
    let mut options = folder.options("out");
    options.prompt_column = Some("7".to_owned());
    options.keep = Some(vec!["8".to_owned()]);
    let report = run(options, &Fake::new()).await.unwrap();
    assert_eq!(report.counts.malformed, 1);
}

#[tokio::test]
async fn an_empty_input_has_an_empty_output() {
    let folder = Folder::new("in.jsonl", "\n\n");
    let report = run(folder.options("out"), &Fake::new()).await.unwrap();
    assert_eq!((report.outcome, folder.read("out").as_str()), (Outcome::Complete, ""));
}

#[tokio::test]
async fn an_input_that_is_changed_while_it_is_run_is_noticed() {
    let folder = Folder::new("in.jsonl", lines(300));
    let path = folder.path("in.jsonl");
    let changed = lines(300).replace("prompt 299", "prompt 000");
    let fake = Fake::with(move |prompt, _| {
        if prompt == "prompt 5" {
            std::fs::write(&path, &changed).unwrap();
        }
        None
    });
    let mut options = folder.options("out");
    options.order = Order::Input;
    options.concurrency = 1;
    assert!(matches!(run(options, &fake).await, Err(Error::InputChanged(_))));
    assert!(!folder.path("out").exists());
}

#[tokio::test]
async fn contradictions_are_told_before_anything_is_run() {
    let folder = Folder::new("in.csv", "a,b\n1,2\n");
    let fake = Fake::new();
    let mut options = folder.options("out");
    let told = run(options.clone(), &fake).await.unwrap_err().to_string();
    assert_eq!(told, "rows need a template or a prompt column; the columns are: a, b");
    options.template = Some("{c}".to_owned());
    let told = run(options.clone(), &fake).await.unwrap_err().to_string();
    assert_eq!(told, "there is no column \"c\"; the input has: a, b");
    options.template = Some("{a}".to_owned());
    options.endpoint = Some(Endpoint::Rerank);
    assert!(run(options.clone(), &fake).await.unwrap_err().to_string().contains("several texts"));
    options.endpoint = None;
    options.output = Some(folder.path("in.csv"));
    options.force_new = true;
    assert_eq!(run(options, &fake).await.unwrap_err().to_string(), "the output is the input");
    assert_eq!((folder.names(), fake.attempts()), (vec!["in.csv".to_owned()], 0));
}

#[tokio::test]
async fn abuse_a_full_disk_ends_the_run_and_loses_nothing() {
    // A file system of 1 MiB; without the right to mount one there is nothing to test.
    let folder = Folder::new("in.jsonl", lines(4_000));
    let small = folder.path("small");
    std::fs::create_dir(&small).unwrap();
    let mount = |size: &str, remount: &str| {
        let mut command = std::process::Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("{remount}size={size}"), "tmpfs"]).arg(&small);
        command.stderr(std::process::Stdio::null()).status().is_ok_and(|status| status.success())
    };
    if !mount("1m", "") {
        return;
    }
    let mut options = folder.options("out");
    options.output = Some(small.join("out"));
    let full = run(options.clone(), &Fake::new()).await;
    let grown = mount("64m", "remount,");
    let after = run(options, &Fake::new()).await;
    let written = std::fs::read_to_string(small.join("out")).unwrap_or_default();
    std::process::Command::new("umount").arg(&small).status().unwrap();
    assert!(matches!(full, Err(Error::Full(_))), "{full:?}");
    assert!(grown);
    assert_eq!(after.unwrap().outcome, Outcome::Complete);
    assert_eq!(written.lines().count(), 4_000);
}
