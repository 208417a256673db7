//! Servers that fail, and lines that fail.

use crate::fake::{Fake, Folder, broken, lines, run, status};
use batch::{AskError, Outcome, Reply, Stopped};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn failures_that_pass_are_tried_again() {
    let folder = Folder::new("in.jsonl", lines(60));
    let fake = Fake::with(|prompt, attempt| match (prompt.len() % 3, attempt) {
        (0, 1 | 2) => broken(),
        (1, 1) => status(503, "busy"),
        (2, 1) => Some(Ok(Reply { status: 429, body: vec![], retry_after: Some(Duration::ZERO) })),
        _ => None,
    });
    let report = run(folder.options("out"), &fake).await.unwrap();
    assert_eq!((report.outcome, report.counts.succeeded), (Outcome::Complete, 60));
    assert!(report.retries >= 60);
}

#[tokio::test]
async fn a_line_that_fails_is_in_the_errors_and_can_be_tried_again() {
    let folder = Folder::new("in.jsonl", lines(20));
    let fake = Fake::with(|prompt, _| match prompt {
        "prompt 3" => status(400, "too long"),
        "prompt 7" => Some(Err(AskError { message: "no".to_owned(), retry_after: None, transient: false })),
        _ => None,
    });
    let report = run(folder.options("out"), &fake).await.unwrap();
    assert_eq!((report.outcome, report.outcome.exit_code()), (Outcome::SomeFailed, 3));
    assert_eq!((report.counts.failed, folder.rows("out").len()), (2, 18));
    let errors = folder.rows("out.errors.jsonl");
    assert_eq!((&errors[0]["custom_id"], &errors[0]["error"]), (&json!("id-3"), &json!(null)));
    assert_eq!(errors[0]["response"]["body"]["error"]["message"], json!("too long"));
    assert_eq!(errors[1]["error"]["code"], json!("request_failed"));

    // The journal is kept: nothing is computed again unless that is asked for.
    let good = Fake::new();
    let mut options = folder.options("out");
    assert_eq!(run(options.clone(), &good).await.unwrap().outcome, Outcome::SomeFailed);
    assert_eq!(good.attempts(), 0);
    options.retry_errors = true;
    let report = run(options, &good).await.unwrap();
    assert_eq!((report.outcome, good.attempts(), folder.rows("out").len()), (Outcome::Complete, 2, 20));
    assert_eq!(folder.names(), ["in.jsonl", "out", "out.manifest.json"]);
}

#[tokio::test]
async fn a_server_that_is_gone_stops_the_run_and_costs_no_lines() {
    let folder = Folder::new("in.jsonl", lines(200));
    let fake = Fake::with(|_, _| broken());
    let mut options = folder.options("out");
    options.attempts = 2;
    let report = run(options.clone(), &fake).await.unwrap();
    assert_eq!(report.outcome, Outcome::Stopped(Stopped::Unavailable));
    assert_eq!((report.counts.failed, report.last_fault.as_deref()), (0, Some("connection refused")));
    assert!(fake.attempts() < 100);
    assert_eq!(run(options, &Fake::new()).await.unwrap().outcome, Outcome::Complete);
}

#[tokio::test]
async fn requests_that_a_server_cannot_do_are_failures_however_many_there_are() {
    let folder = Folder::new("in.jsonl", lines(40));
    let fake = Fake::with(|prompt, _| if prompt == "prompt 0" { None } else { status(500, "fault") });
    let mut options = folder.options("out");
    options.attempts = 2;
    let report = run(options, &fake).await.unwrap();
    assert_eq!((report.outcome, report.counts.failed), (Outcome::SomeFailed, 39));
}

#[tokio::test]
async fn a_refused_key_stops_even_a_short_run() {
    let folder = Folder::new("in.jsonl", lines(3));
    let report = run(folder.options("out"), &Fake::with(|_, _| status(401, "bad key"))).await.unwrap();
    assert_eq!(report.outcome, Outcome::Stopped(Stopped::Unavailable));
    assert_eq!(report.last_fault.as_deref(), Some("status 401: bad key"));
}

#[tokio::test]
async fn an_answer_that_never_comes_is_given_up() {
    let folder = Folder::new("in.jsonl", lines(1));
    let mut options = folder.options("out");
    options.attempts = 2;
    options.attempt_limit = Duration::from_millis(20);
    let report = run(options, &Fake::slow(Duration::from_secs(3600), |_, _| None)).await.unwrap();
    assert_eq!(report.last_fault.as_deref(), Some("there was no answer within 0.02 s"));
}

#[tokio::test]
async fn a_runner_that_panics_ends_the_run_and_what_was_finished_is_kept() {
    let folder = Folder::new("in.jsonl", lines(30));
    let mut options = folder.options("out");
    options.concurrency = 1;
    options.order = batch::Order::Input;
    let fake =
        Fake::with(|prompt, _| if prompt == "prompt 9" { panic!("a fault of the runner") } else { None });
    assert!(run(options.clone(), &fake).await.is_err());
    assert_eq!(run(options, &Fake::new()).await.unwrap().resumed, 9);
}
