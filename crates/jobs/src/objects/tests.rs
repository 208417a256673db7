#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use super::*;
use crate::batch::{Batch, BatchKind, Counts, FileError, LineOutcome};
use crate::file::{File, Purpose};
use crate::job::{Face, Job, JobError, Usage};
use crate::schema_check::{check, names};
use serde::Serialize;
use serde_json::{Value, json};

/// 2024-08-20T18:37:24.100Z.
const NOW: i64 = 1_724_179_044_100;
const SECOND: i64 = 1_724_179_044;
const DAY: i64 = 86_400_000;

/// Unix milliseconds and their text by Python's `datetime`.
const TIMES: &str = include_str!("../../tests/fixtures/times.jsonl");

fn value(object: impl Serialize) -> Value {
    // By way of text, as clients get it: raw JSON stays raw.
    serde_json::from_str(&serde_json::to_string(&object).unwrap()).unwrap()
}

fn members(object: &Value) -> Vec<String> {
    let mut names: Vec<String> = object.as_object().unwrap().keys().cloned().collect();
    names.sort();
    names
}

/// The object has the members of the clients' type, all of them and no others.
fn exact(schema: &str, object: &Value) {
    check(schema, object);
    let mut expected = names(schema);
    expected.sort();
    assert_eq!(members(object), expected);
}

fn batch(kind: BatchKind) -> Batch {
    let mut batch = Batch::new("batch_1".to_owned(), kind, "/v1/chat/completions".to_owned(), NOW, NOW + DAY);
    batch.input_file = "file-in".to_owned();
    batch.add_lines(0, 4).unwrap();
    batch.begin(NOW + 1_000).unwrap();
    batch
}

fn line_ends(batch: &mut Batch, outcome: LineOutcome) {
    let usage = Usage { input_tokens: 10, cached_tokens: 4, output_tokens: 5, reasoning_tokens: 1 };
    batch.line_ended(outcome, Some(usage), None).unwrap();
}

/// Cancelled after an answer, an error and an expired line.
fn cancelled(kind: BatchKind) -> Batch {
    let mut batch = batch(kind);
    line_ends(&mut batch, LineOutcome::Succeeded);
    line_ends(&mut batch, LineOutcome::Errored);
    line_ends(&mut batch, LineOutcome::Expired);
    batch.cancel(NOW + 2_000).unwrap();
    line_ends(&mut batch, LineOutcome::Cancelled);
    batch.finalize(Some("file-out".to_owned()), Some("file-err".to_owned()), NOW + 3_000).unwrap();
    batch.end(NOW + 4_000).unwrap();
    batch
}

#[test]
fn times_are_those_of_python() {
    for line in TIMES.lines() {
        let (millis, text): (i64, String) = serde_json::from_str(line).unwrap();
        assert_eq!(rfc3339(millis), text);
    }
}

#[test]
fn a_batch_in_progress_has_no_files_yet() {
    let mut batch = batch(BatchKind::OpenAi);
    line_ends(&mut batch, LineOutcome::Succeeded);
    batch.expire(NOW + DAY).unwrap();
    (0..3).for_each(|_| line_ends(&mut batch, LineOutcome::Expired));
    batch.finalize(Some("file-out".to_owned()), None, NOW + DAY).unwrap();
    let object = value(batch_object(&batch));
    exact("batch", &object);
    assert_eq!((&object["status"], &object["output_file_id"]), (&json!("finalizing"), &Value::Null));
    assert_eq!(
        (&object["expired_at"], &object["metadata"], &object["errors"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    batch.end(NOW + DAY).unwrap();
    let object = value(batch_object(&batch));
    assert_eq!((&object["status"], &object["output_file_id"]), (&json!("expired"), &json!("file-out")));
    assert_eq!(object["expired_at"], json!(SECOND + 86_400));
}

#[test]
fn a_batch_is_shown_as_openai_shows_it() {
    let mut batch = cancelled(BatchKind::OpenAi);
    batch.model = Some("m".to_owned());
    batch.metadata.insert("k".to_owned(), "v".to_owned());
    let object = value(batch_object(&batch));
    exact("batch", &object);
    assert_eq!(object["status"], "cancelled");
    assert_eq!(object["request_counts"], json!({"total": 4, "completed": 1, "failed": 3}));
    assert_eq!(
        (&object["output_file_id"], &object["error_file_id"]),
        (&json!("file-out"), &json!("file-err"))
    );
    assert_eq!((&object["created_at"], &object["expires_at"]), (&json!(SECOND), &json!(SECOND + 86_400)));
    assert_eq!((&object["cancelling_at"], &object["cancelled_at"]), (&json!(SECOND + 2), &json!(SECOND + 4)));
    assert_eq!(object["usage"]["total_tokens"], 60);
    assert_eq!(object["usage"]["input_tokens_details"]["cached_tokens"], 16);
    assert_eq!(object["metadata"], json!({"k": "v"}));
}

#[test]
fn a_failed_batch_lists_the_errors_of_its_file() {
    let mut batch =
        Batch::new("batch_1".to_owned(), BatchKind::OpenAi, "/v1/completions".to_owned(), NOW, NOW + DAY);
    let error = FileError {
        code: "duplicate_custom_id".to_owned(),
        message: "twice".to_owned(),
        line: Some(3),
        param: Some("custom_id".to_owned()),
    };
    batch.fail(vec![error], NOW + 5_000).unwrap();
    let object = value(batch_object(&batch));
    exact("batch", &object);
    let data = json!([{"code": "duplicate_custom_id", "message": "twice", "line": 3, "param": "custom_id"}]);
    assert_eq!(object["errors"], json!({"object": "list", "data": data}));
    assert_eq!(object["failed_at"], json!(SECOND + 5));
}

#[test]
fn a_message_batch_counts_when_it_has_ended() {
    let mut batch = batch(BatchKind::Anthropic);
    line_ends(&mut batch, LineOutcome::Succeeded);
    let object = value(message_batch_object(&batch, "http://host"));
    exact("message_batch", &object);
    let counts = json!({"processing": 4, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0});
    assert_eq!((&object["processing_status"], &object["request_counts"]), (&json!("in_progress"), &counts));
    assert_eq!(
        (&object["created_at"], &object["results_url"]),
        (&json!("2024-08-20T18:37:24.100Z"), &Value::Null)
    );
    batch.cancel(NOW).unwrap();
    assert_eq!(value(message_batch_object(&batch, ""))["processing_status"], "canceling");
}

#[test]
fn a_message_batch_has_results_until_it_is_archived() {
    let mut batch = cancelled(BatchKind::Anthropic);
    let object = value(message_batch_object(&batch, "http://host/"));
    exact("message_batch", &object);
    let counts = json!({"processing": 0, "succeeded": 1, "errored": 1, "canceled": 1, "expired": 1});
    assert_eq!((&object["processing_status"], &object["request_counts"]), (&json!("ended"), &counts));
    assert_eq!(object["results_url"], "http://host/v1/messages/batches/batch_1/results");
    assert_eq!(object["ended_at"], "2024-08-20T18:37:28.100Z");
    assert_eq!(object["cancel_initiated_at"], "2024-08-20T18:37:26.100Z");
    batch.archive(NOW + 29 * DAY).unwrap();
    let object = value(message_batch_object(&batch, "http://host"));
    assert_eq!(
        (&object["results_url"], &object["archived_at"]),
        (&Value::Null, &json!("2024-09-18T18:37:24.100Z"))
    );
    assert_eq!(batch.counts, Counts { total: 4, succeeded: 1, errored: 1, cancelled: 1, expired: 1 });
}

#[test]
fn a_file_is_shown_as_openai_shows_it() {
    let mut file = File {
        id: "file-1".to_owned(),
        key: "secret".to_owned(),
        filename: "in.jsonl".to_owned(),
        purpose: Purpose::Batch,
        bytes: 120,
        sha256: "ab".to_owned(),
        created_at: NOW,
        expires_at: Some(NOW + DAY),
        hidden: false,
    };
    let object = value(file_object(&file));
    exact("file", &object);
    assert_eq!((&object["purpose"], &object["status"]), (&json!("batch"), &json!("processed")));
    assert_eq!((&object["bytes"], &object["expires_at"]), (&json!(120), &json!(SECOND + 86_400)));
    for (purpose, word) in [(Purpose::BatchOutput, "batch_output"), (Purpose::UserData, "user_data")] {
        file.purpose = purpose;
        assert_eq!(value(file_object(&file))["purpose"], word);
    }
}

#[test]
fn lists_name_their_ends() {
    let list = value(List::new(vec!["a", "b"], true, |id| id));
    let expected =
        json!({"object": "list", "data": ["a", "b"], "first_id": "a", "last_id": "b", "has_more": true});
    assert_eq!(list, expected);
    let empty = value(MessageList::new(Vec::<String>::new(), false, |id| id));
    assert_eq!(empty, json!({"data": [], "first_id": null, "last_id": null, "has_more": false}));
}

#[test]
fn deleted_things_are_named() {
    exact("file_deleted", &value(Deleted::new("file-1", "file")));
    exact("message_batch_deleted", &value(DeletedMessageBatch::new("msgbatch_1")));
}

/// The members of a job's object, as the documentation lists them.
const JOB: &str = "attempts batch_id cancel_url cost created_at custom_id dead endpoint error events_url expires_at \
     finished_at id max_attempts metadata model model_sha256 object priority progress result result_sha256 result_url \
     retain_until run_at seed started_at status status_code usage";

fn job() -> Job {
    let mut job = Job::new("job_1".to_owned(), Face::Job, "/v1/chat/completions".to_owned(), NOW);
    job.deadline = Some(NOW + DAY);
    job
}

#[test]
fn a_waiting_job_tells_its_place() {
    let context = JobContext { base_url: "http://host/", position: Some(3), ..JobContext::default() };
    let object = value(job_object(&job(), &context));
    assert_eq!(members(&object).join(" "), JOB);
    assert_eq!(
        (&object["object"], &object["status"], &object["priority"]),
        (&json!("job"), &json!("queued"), &json!("default"))
    );
    assert_eq!((&object["created_at"], &object["expires_at"]), (&json!(SECOND), &json!(SECOND + 86_400)));
    assert_eq!((&object["model"], &object["retain_until"]), (&Value::Null, &Value::Null));
    assert_eq!(
        (&object["progress"]["phase"], &object["progress"]["position"]),
        (&json!("waiting"), &json!(3))
    );
    assert_eq!(
        (&object["events_url"], &object["result_url"]),
        (&json!("http://host/v1/jobs/job_1/events"), &Value::Null)
    );
}

#[test]
fn a_running_job_tells_how_far_it_is() {
    let mut job = job();
    job.claim("w", NOW + 60_000, NOW).unwrap();
    let progress = crate::job::Progress {
        phase: "decode".to_owned(),
        prompt_tokens: Some(30),
        output_tokens: 20,
        output_limit: Some(100),
        tokens_per_second: Some(8.0),
    };
    job.renew(1, NOW + 90_000, progress).unwrap();
    let context = JobContext { position: Some(3), seed: Some(u64::MAX), ..JobContext::default() };
    let object = value(job_object(&job, &context));
    let expected = json!({"phase": "decode", "position": null, "prompt_tokens": 30, "prompt_done": 30,
        "output_tokens": 20, "output_limit": 100, "tokens_per_second": 8.0, "eta_seconds": 10.0});
    assert_eq!(object["progress"], expected);
    assert_eq!((&object["seed"], &object["cancel_url"]), (&json!(u64::MAX), &json!("/v1/jobs/job_1/cancel")));
}

#[test]
fn an_ended_job_shows_its_result_as_it_is() {
    let mut job = job();
    job.claim("w", NOW + 60_000, NOW).unwrap();
    let success = crate::transition::Success {
        status_code: 200,
        result_sha256: "ab".to_owned(),
        result_bytes: 9,
        usage: Usage { input_tokens: 3, output_tokens: 4, ..Usage::default() },
        cost_micros: Some(1_500),
    };
    job.succeed(1, success, NOW + 2_000).unwrap();
    let result = br#"{"x":1.50}"#;
    let text = serde_json::to_string(&job_object(
        &job,
        &JobContext { result: Some(result), ..JobContext::default() },
    ))
    .unwrap();
    assert!(text.contains(r#""result":{"x":1.50}"#), "{text}");
    let object: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&object["cost"], &object["usage"]["total_tokens"]), (&json!(0.0015), &json!(7)));
    assert_eq!(
        (&object["result_url"], &object["progress"]["eta_seconds"]),
        (&json!("/v1/jobs/job_1/result"), &Value::Null)
    );
    assert_eq!(object["retain_until"], json!(SECOND + 2 + job.retain / 1_000));
    for left_out in [&b"text"[..], &[b'1'; MAX_INLINE_RESULT + 1]] {
        let context = JobContext { result: Some(left_out), ..JobContext::default() };
        assert_eq!(value(job_object(&job, &context))["result"], Value::Null);
    }
}

#[test]
fn a_failed_job_says_why() {
    let mut job = job();
    job.claim("w", NOW + 60_000, NOW).unwrap();
    let error = JobError { code: "bad".to_owned(), message: "m".to_owned(), param: Some("p".to_owned()) };
    job.fail(1, 400, error, NOW).unwrap();
    let object = value(job_object(&job, &JobContext::default()));
    assert_eq!(
        object["error"],
        json!({"code": "bad", "message": "m", "type": "invalid_request_error", "param": "p"})
    );
    assert_eq!(object["status_code"], 400);
}
