#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use super::*;
use crate::job::{Face, Usage};
use crate::schema_check::check;
use crate::transition::Success;
use serde_json::json;

fn running(face: Face) -> Job {
    let mut job = Job::new("batch_req_01ARZ".to_owned(), face, "/v1/chat/completions".to_owned(), 0);
    job.custom_id = Some("a \"1\"".to_owned());
    job.claim("w", 10, 0).unwrap();
    job
}

fn succeeded(face: Face) -> Job {
    let mut job = running(face);
    let success = Success {
        status_code: 200,
        result_sha256: String::new(),
        result_bytes: 0,
        usage: Usage::default(),
        cost_micros: None,
    };
    job.succeed(1, success, 5).unwrap();
    job
}

fn failed(face: Face, status_code: u16) -> Job {
    let mut job = running(face);
    let error = JobError { code: "too_long".to_owned(), message: "It is too long.".to_owned(), param: None };
    job.fail(1, status_code, error, 5).unwrap();
    job
}

fn cancelled(face: Face) -> Job {
    let mut job = running(face);
    job.cancel(5).unwrap();
    job.release(1, 6).unwrap();
    job
}

fn expired(face: Face) -> Job {
    let mut job = running(face);
    job.deadline = Some(9);
    job.expire(9).unwrap();
    job
}

fn lost(face: Face) -> Job {
    let mut job = running(face);
    job.max_attempts = 1;
    job.take_back(5).unwrap();
    job
}

fn read(line: &[u8]) -> Value {
    assert!(!line.contains(&b'\n'));
    serde_json::from_slice(line).unwrap()
}

fn openai(job: &Job, result: &str) -> Value {
    read(&openai_line(job, result.as_bytes()))
}

fn anthropic(job: &Job, result: &str) -> Value {
    let line = read(&anthropic_line(job, result.as_bytes()));
    check("message_batch_line", &line);
    assert_eq!(line["custom_id"], "a \"1\"");
    line["result"].clone()
}

#[test]
fn an_answer_is_as_the_endpoint_wrote_it() {
    let line = openai_line(&succeeded(Face::BatchLine), br#"{"x":1.50,"big":12345678901234567890123}"#);
    let expected = concat!(
        r#"{"id":"batch_req_01ARZ","custom_id":"a \"1\"","response":{"status_code":200,"request_id":"req_01ARZ","#,
        r#""body":{"x":1.50,"big":12345678901234567890123}},"error":null}"#
    );
    assert_eq!(String::from_utf8(line).unwrap(), expected);
}

#[test]
fn an_answer_of_many_lines_is_one_line() {
    let pretty = "{\r\n \"x\": \"a\\nb\",\n \"y\": [\n1\n]\n}\n";
    assert_eq!(
        openai(&succeeded(Face::BatchLine), pretty)["response"]["body"],
        json!({"x": "a\nb", "y": [1]})
    );
}

#[test]
fn an_answer_that_is_no_json_is_a_string() {
    let line = openai(&succeeded(Face::BatchLine), "plain\ntext");
    assert_eq!(line["response"]["body"], "plain\ntext");
    let line = read(&openai_line(&succeeded(Face::BatchLine), b"\xFF{"));
    assert_eq!(line["response"]["body"], "\u{fffd}{");
}

/// openai-openapi #302: the error of a line stands in `response`, not in `error`.
#[test]
fn fault_an_error_of_the_endpoint_is_a_response() {
    let job = failed(Face::BatchLine, 400);
    let line = openai(&job, r#"{"error":{"message":"m"}}"#);
    assert_eq!((place(&job), &line["error"]), (Place::Errors, &Value::Null));
    assert_eq!(line["response"]["status_code"], 400);
    assert_eq!(line["response"]["body"]["error"]["message"], "m");
}

#[test]
fn a_line_without_an_answer_is_an_error() {
    let code = |job: &Job| {
        let line = openai(job, "");
        assert_eq!((place(job), &line["response"]), (Place::Errors, &Value::Null));
        assert!(line["error"]["message"].as_str().unwrap().len() > 10);
        line["error"]["code"].as_str().unwrap().to_owned()
    };
    assert_eq!(code(&cancelled(Face::BatchLine)), "batch_cancelled");
    assert_eq!(code(&expired(Face::BatchLine)), "batch_expired");
    assert_eq!(code(&lost(Face::BatchLine)), "worker_lost");
    assert_eq!(code(&failed(Face::BatchLine, 400)), "too_long");
    // What an earlier attempt left behind is no answer.
    assert_eq!(openai(&expired(Face::BatchLine), "{}")["response"], Value::Null);
    assert_eq!(place(&succeeded(Face::BatchLine)), Place::Output);
}

#[test]
fn a_message_is_a_result() {
    let message = r#"{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"Hi"}],"model":"m",
        "stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":2}}"#;
    let result = anthropic(&succeeded(Face::MessageLine), message);
    assert_eq!(result["type"], "succeeded");
    assert_eq!(result["message"], serde_json::from_str::<Value>(message).unwrap());
}

#[test]
fn an_error_of_a_message_keeps_its_form() {
    let error = r#"{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens"},"request_id":"req_9"}"#;
    let result = anthropic(&failed(Face::MessageLine, 400), error);
    assert_eq!(result["type"], "errored");
    assert_eq!(result["error"], serde_json::from_str::<Value>(error).unwrap());
}

#[test]
fn other_errors_get_the_form_of_the_api() {
    let kind = |job: &Job, result: &str| {
        let result = anthropic(job, result);
        assert_eq!((&result["type"], &result["error"]["type"]), (&json!("errored"), &json!("error")));
        assert_eq!(result["error"]["request_id"], "req_01ARZ");
        result["error"]["error"]["type"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        kind(&failed(Face::MessageLine, 400), r#"{"error":{"message":"m"}}"#),
        "invalid_request_error"
    );
    assert_eq!(kind(&failed(Face::MessageLine, 404), ""), "not_found_error");
    assert_eq!(kind(&failed(Face::MessageLine, 429), ""), "rate_limit_error");
    assert_eq!(kind(&failed(Face::MessageLine, 503), ""), "overloaded_error");
    assert_eq!(kind(&lost(Face::MessageLine), ""), "api_error");
    // An answer that is no message cannot be shown as one.
    assert_eq!(kind(&succeeded(Face::MessageLine), "text"), "api_error");
}

#[test]
fn requests_that_were_not_run_say_why() {
    assert_eq!(anthropic(&cancelled(Face::MessageLine), ""), json!({"type": "canceled"}));
    assert_eq!(anthropic(&expired(Face::MessageLine), ""), json!({"type": "expired"}));
}
