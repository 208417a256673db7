//! What a run does when nothing goes wrong.

use crate::fake::{Fake, Folder, line, lines, quiet, run};
use batch::{Cancel, Input, Order, Outcome, Prices, Stopped, Streams};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[tokio::test]
async fn answers_come_in_the_order_of_the_input() {
    let folder = Folder::new("in.jsonl", lines(1_000));
    let fake = Fake::new();
    let report = run(folder.options("out.jsonl"), &fake).await.unwrap();
    assert_eq!(report.outcome, Outcome::Complete);
    assert_eq!((report.counts.lines, report.counts.succeeded, report.tokens.prompt), (1_000, 1_000, 10_000));
    for (number, row) in folder.rows("out.jsonl").iter().enumerate() {
        assert_eq!(row["custom_id"], json!(format!("id-{number}")));
        let text = row["response"]["body"]["choices"][0]["message"]["content"].as_str().unwrap();
        assert!(text.starts_with(&format!("PROMPT {number} [")), "{text}");
        assert_eq!((&row["response"]["status_code"], &row["error"]), (&json!(200), &Value::Null));
    }
    assert_eq!(folder.names(), ["in.jsonl", "out.jsonl", "out.jsonl.manifest.json"]);
}

#[tokio::test]
async fn shared_beginnings_are_asked_one_after_another() {
    let long = |letter: &str, number: usize| format!("{}{number}", letter.repeat(600));
    let input: String = (0..20).map(|n| line(&n.to_string(), &long(["a", "b"][n % 2], n))).collect();
    let folder = Folder::new("in.jsonl", input);
    let (auto, as_input) = (Fake::new(), Fake::new());
    let mut options = folder.options("auto");
    options.concurrency = 1;
    let report = run(options.clone(), &auto).await.unwrap();
    assert!(report.predicted_reuse > 0.7, "{}", report.predicted_reuse);
    let changes = |fake: &Fake| {
        let order = fake.order.lock().unwrap();
        order.windows(2).filter(|pair| pair[0].as_bytes()[0] != pair[1].as_bytes()[0]).count()
    };
    options.output = Some(folder.path("input"));
    options.order = Order::Input;
    run(options, &as_input).await.unwrap();
    assert_eq!((changes(&auto), changes(&as_input)), (1, 19));
    assert_eq!(folder.read("auto"), folder.read("input"));
}

#[tokio::test]
async fn equal_requests_are_asked_once_and_written_for_each_line() {
    let input: String = (0..30).map(|n| line(&n.to_string(), ["x", "y", "z"][n % 3])).collect();
    let folder = Folder::new("in.jsonl", input);
    let fake = Fake::new();
    let report = run(folder.options("out"), &fake).await.unwrap();
    assert_eq!((report.counts.duplicates, report.counts.requests, fake.attempts()), (27, 3, 3));
    let rows = folder.rows("out");
    assert_eq!(rows[0]["response"], rows[27]["response"]);
    assert_ne!(rows[0]["id"], rows[27]["id"]);
}

#[tokio::test]
async fn equal_requests_that_are_drawn_get_different_seeds() {
    let row = json!({"messages": [{"role": "user", "content": "x"}], "temperature": 1}).to_string() + "\n";
    let folder = Folder::new("in.jsonl", row.repeat(3));
    let fake = Fake::new();
    run(folder.options("out"), &fake).await.unwrap();
    let mut texts: Vec<String> = folder.rows("out").iter().map(|row| row["text"].to_string()).collect();
    texts.sort();
    texts.dedup();
    assert_eq!((texts.len(), fake.attempts()), (3, 3));

    let first = folder.read("out");
    let mut options = folder.options("out");
    options.force_new = true;
    run(options, &Fake::new()).await.unwrap();
    assert_eq!(folder.read("out"), first);
}

#[tokio::test]
async fn a_complete_output_is_not_computed_again_and_not_overwritten_by_another_run() {
    let folder = Folder::new("in.jsonl", lines(5));
    run(folder.options("out"), &Fake::new()).await.unwrap();
    let fake = Fake::new();
    let report = run(folder.options("out"), &fake).await.unwrap();
    assert!(report.already_complete && fake.attempts() == 0);
    assert_eq!((report.outcome, report.counts.succeeded), (Outcome::Complete, 5));

    let mut options = folder.options("out");
    options.model = Some("other".to_owned());
    let error = run(options.clone(), &fake).await.unwrap_err().to_string();
    assert!(error.contains("model was absent, is other"), "{error}");
    options.force_new = true;
    assert_eq!(run(options, &fake).await.unwrap().finished_now, 5);
}

#[tokio::test]
async fn the_manifest_tells_what_was_done() {
    let folder = Folder::new("in.jsonl", lines(4));
    let mut options = folder.options("out");
    options.identity = "model sha256:12".to_owned();
    options.prices = Some(Prices { input: 1_000_000, cached: 0, output: 2_000_000 });
    let report = run(options, &Fake::new()).await.unwrap();
    let manifest: Value = serde_json::from_str(&folder.read("out.manifest.json")).unwrap();
    assert_eq!(manifest["counts"]["succeeded"], json!(4));
    assert_eq!(manifest["run"]["identity"], json!("model sha256:12"));
    assert_eq!(manifest["cost_micros"], json!(report.cost.unwrap()));
    // Tokens 0, 1, 2 and 3 of the four prompts of ten were in the cache.
    assert_eq!(report.cost, Some(4 * 10 - 6 + 4 * 3 * 2));
    assert_eq!(manifest["output"]["bytes"], json!(folder.read("out").len()));
}

#[tokio::test]
async fn a_run_stops_at_its_cost_and_goes_on_with_more() {
    let folder = Folder::new("in.jsonl", lines(50));
    let mut options = folder.options("out");
    options.concurrency = 2;
    options.prices = Some(Prices { input: 1_000_000, cached: 1_000_000, output: 0 });
    options.max_cost = Some(200);
    let fake = Fake::new();
    let report = run(options.clone(), &fake).await.unwrap();
    assert_eq!(report.outcome, Outcome::Stopped(Stopped::Cost));
    assert!((20..=22).contains(&report.counts.succeeded), "{:?}", report.counts);
    assert!(!folder.path("out").exists() && folder.path("out.gristmill").exists());
    options.max_cost = Some(10_000);
    let report = run(options, &fake).await.unwrap();
    assert_eq!((report.outcome, fake.attempts()), (Outcome::Complete, 50));
    assert!(report.resumed >= 20);
}

#[tokio::test]
async fn a_run_stops_at_its_time() {
    let folder = Folder::new("in.jsonl", lines(50));
    let mut options = folder.options("out");
    options.max_time = Some(Duration::from_millis(200));
    let report = run(options, &Fake::slow(Duration::from_secs(60), |_, _| None)).await.unwrap();
    assert_eq!((report.outcome, report.outcome.exit_code()), (Outcome::Stopped(Stopped::Time), 4));
}

#[tokio::test]
async fn a_run_that_is_cancelled_keeps_what_it_has() {
    let folder = Folder::new("in.jsonl", lines(50));
    let cancel = Cancel::default();
    let switch = cancel.clone();
    let fake = Fake::with(move |prompt, _| {
        if prompt == "prompt 30" {
            switch.cancel();
        }
        None
    });
    let mut options = folder.options("out");
    options.concurrency = 1;
    options.order = Order::Input;
    let report =
        batch::run(options.clone(), fake.clone(), Streams::default(), quiet(), cancel).await.unwrap();
    assert_eq!(report.outcome, Outcome::Stopped(Stopped::Cancelled));
    assert!(report.counts.succeeded >= 30);
    let report = run(options, &Fake::new()).await.unwrap();
    assert!(report.resumed >= 30 && report.finished_now <= 20);
}

/// A stream whose bytes can be read while it is owned by a run.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn streams_are_read_and_written_in_place_of_files() {
    let folder = Folder::new("unused", "");
    let mut options = folder.options("unused");
    options.input = Input::Stream;
    options.output = None;
    options.beside = Some(folder.path("state"));
    let written = Shared::default();
    let input = lines(3);
    let streams = Streams {
        input: Some(Box::new(std::io::Cursor::new(input))),
        output: Some(Box::new(written.clone())),
    };
    let report = batch::run(options, Fake::new(), streams, quiet(), Cancel::default()).await.unwrap();
    assert_eq!(report.outcome, Outcome::Complete);
    assert_eq!(written.0.lock().unwrap().iter().filter(|byte| **byte == b'\n').count(), 3);
    assert_eq!(folder.names(), ["state.manifest.json", "unused"]);
}

#[tokio::test]
async fn the_copy_of_a_stream_is_gone_when_it_has_served() {
    let folder = Folder::new("unused", "");
    let mut options = folder.options("out");
    options.input = Input::Stream;
    for text in [lines(3), lines(3), "{}".to_owned()] {
        let streams = Streams { input: Some(Box::new(std::io::Cursor::new(text))), output: None };
        let _ = batch::run(options.clone(), Fake::new(), streams, quiet(), Cancel::default()).await;
        assert_eq!(folder.names(), ["out", "out.manifest.json", "unused"]);
    }
    assert_eq!(folder.rows("out").len(), 3);
}

#[tokio::test]
async fn bodies_are_written_as_they_came_if_that_is_asked_for() {
    let folder = Folder::new("in.jsonl", lines(1));
    let mut options = folder.options("out");
    options.reproducible = false;
    run(options, &Fake::new()).await.unwrap();
    let body = &folder.rows("out")[0]["response"]["body"];
    assert_eq!(
        (&body["id"], &body["usage"]["prompt_tokens_details"]["cached_tokens"]),
        (&json!("chatcmpl-0"), &json!(0))
    );
}
