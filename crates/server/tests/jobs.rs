//! Jobs run by the server's own routes: the bytes that a client would have got, whatever ends in between.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::frame::{Running, chat_body, keeping_jobs, merge, options, ready};

const JOBS: &str = "/v1/jobs";
const RESPONSES: &str = "/v1/responses";
/// A step of the model: slow enough to be stopped in the middle of an answer.
const SLOW: Duration = Duration::from_millis(20);

fn submit(server: &Running, endpoint: &str, body: &Value) -> String {
    let accepted = server.post(JOBS, &json!({"endpoint": endpoint, "body": body}));
    assert_eq!(accepted.status, 202, "{}", accepted.body);
    assert!(accepted.header("location").is_some_and(|place| place.starts_with(JOBS)));
    accepted.json()["id"].as_str().unwrap().to_owned()
}

fn job(server: &Running, id: &str) -> Value {
    server.get(&format!("{JOBS}/{id}")).json()
}

fn until(server: &Running, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let job = job(server, id);
        if wanted(&job) {
            return job;
        }
        assert!(Instant::now() < end, "{job}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn ended(server: &Running, id: &str) -> Value {
    until(server, id, |job| {
        ["succeeded", "failed", "cancelled", "expired"].contains(&job["status"].as_str().unwrap())
    })
}

/// An answer without what differs each time.
fn plain(mut answer: Value) -> Value {
    for field in ["id", "created"] {
        answer[field] = Value::Null;
    }
    answer
}

#[test]
fn a_jobs_result_is_what_a_client_gets() {
    let folder = tempfile::tempdir().unwrap();
    let server = keeping_jobs(options(), Duration::ZERO, folder.path());
    let bodies = [
        ("/v1/chat/completions", chat_body(json!({"max_tokens": 9, "seed": 3}))),
        ("/v1/completions", json!({"model": "tiny", "prompt": "hello", "max_tokens": 7, "seed": 5, "n": 2})),
    ];
    for (endpoint, body) in bodies {
        let direct = server.post(endpoint, &body).json();
        let id = submit(&server, endpoint, &body);
        let job = ended(&server, &id);
        assert_eq!(job["status"], "succeeded", "{job}");
        assert_eq!(plain(job["result"].clone())["choices"], plain(direct.clone())["choices"]);
        assert_eq!(job["usage"]["output_tokens"], direct["usage"]["completion_tokens"]);
        let result = server.get(&format!("{JOBS}/{id}/result"));
        assert_eq!((result.status, result.json()), (200, job["result"].clone()));
    }
}

#[test]
fn what_is_wrong_is_said_before_a_job_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let server = keeping_jobs(options(), Duration::ZERO, folder.path());
    let refused = |endpoint: &str, body: Value| {
        let answer = server.post(JOBS, &json!({"endpoint": endpoint, "body": body}));
        (answer.status, answer.json()["error"]["param"].as_str().unwrap_or_default().to_owned())
    };
    let chat = "/v1/chat/completions";
    assert_eq!(refused("/v1/nothing", json!({})).0, 400);
    assert_eq!(refused(chat, chat_body(json!({"temperature": 9}))).0, 400);
    assert_eq!(refused(chat, chat_body(json!({"stream": true}))).0, 400);
    assert_eq!(refused(chat, chat_body(json!({"model": "none"}))).0, 404);
    assert_eq!(server.get(&format!("{JOBS}?limit=10")).json()["data"], json!([]));
}

#[test]
fn a_long_answer_goes_on_where_its_server_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let body = chat_body(json!({"max_tokens": 60, "ignore_eos": true, "seed": 11, "temperature": 1}));
    let undisturbed = {
        let server = ready(options(), Duration::ZERO);
        server.post("/v1/chat/completions", &body).json()["choices"].clone()
    };
    let mut server = keeping_jobs(options(), SLOW, folder.path());
    let id = submit(&server, "/v1/chat/completions", &body);
    // Some thirty steps; how many they were does not matter.
    std::thread::sleep(30 * SLOW);
    server.stop();
    server.join();
    drop(server);
    let server = keeping_jobs(options(), Duration::ZERO, folder.path());
    let job = ended(&server, &id);
    assert_eq!(job["status"], "succeeded", "{job}");
    assert_eq!(job["result"]["choices"], undisturbed);
    assert_eq!(job["attempts"], 1, "a job that is given back has not failed");
    let resumed = job["result"]["usage"]["completion_tokens_details"]["resumed_tokens"].as_u64().unwrap();
    assert!(resumed >= 1, "{resumed} tokens were not computed again");
}

#[test]
fn a_running_job_is_cancelled_within_a_step() {
    let folder = tempfile::tempdir().unwrap();
    let server = keeping_jobs(options(), SLOW, folder.path());
    let body = chat_body(json!({"max_tokens": 70, "ignore_eos": true}));
    let id = submit(&server, "/v1/chat/completions", &body);
    server.until("it runs", |stats| stats.running == 1);
    assert_eq!(server.post(&format!("{JOBS}/{id}/cancel"), &json!({})).status, 200);
    assert_eq!(ended(&server, &id)["status"], "cancelled");
    server.until("its place is free", |stats| stats.running == 0 && stats.cancelled == 1);
}

#[test]
fn a_response_in_the_background_outlives_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut body = json!({"model": "tiny", "input": "hello", "background": true, "max_output_tokens": 40});
    merge(&mut body, json!({"ignore_eos": true, "metadata": {"a": "b"}}));
    let mut server = keeping_jobs(options(), SLOW, folder.path());
    let begun = server.post(RESPONSES, &body).json();
    assert_eq!((&begun["status"], &begun["background"]), (&json!("queued"), &json!(true)), "{begun}");
    let id = begun["id"].as_str().unwrap().to_owned();
    server.until("it runs", |stats| stats.output_tokens > 2);
    assert_eq!(server.get(&format!("{RESPONSES}/{id}")).json()["status"], "in_progress");
    server.stop();
    server.join();
    drop(server);
    let server = keeping_jobs(options(), Duration::ZERO, folder.path());
    let end = Instant::now() + Duration::from_secs(60);
    let done = loop {
        let object = server.get(&format!("{RESPONSES}/{id}")).json();
        if !["queued", "in_progress"].contains(&object["status"].as_str().unwrap()) {
            break object;
        }
        assert!(Instant::now() < end, "{object}");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!((&done["status"], &done["id"]), (&json!("incomplete"), &json!(id)), "{done}");
    assert_eq!((&done["background"], &done["metadata"]["a"]), (&json!(true), &json!("b")));
    assert_eq!(done["usage"]["output_tokens"], 40);
    let deleted = server.send("DELETE", &format!("{RESPONSES}/{id}"), &[], b"");
    assert_eq!(deleted.json()["deleted"], true);
    assert_eq!(server.get(&format!("{RESPONSES}/{id}")).status, 404);
}

#[test]
fn without_a_store_the_routes_say_so() {
    let server = ready(options(), Duration::ZERO);
    let answer = server.post(JOBS, &json!({"endpoint": "/v1/completions", "body": {}}));
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (501, &json!("jobs_off")));
    assert_eq!(server.get("/v1/batches").status, 501);
    assert_eq!(server.get("/v1/messages/batches").json()["type"], "error");
}

#[test]
fn the_guides_form_and_requests_that_would_rather_wait() {
    let folder = tempfile::tempdir().unwrap();
    let server = keeping_jobs(options(), Duration::ZERO, folder.path());
    let task = server.post("/generate", &json!({"prompt": "hello", "max_tokens": 5}));
    assert_eq!(task.status, 202, "{}", task.body);
    let task = task.json();
    let place = task["status_url"].as_str().unwrap().to_owned();
    let end = Instant::now() + Duration::from_secs(60);
    while server.get(&place).json()["status"] != "completed" {
        assert!(Instant::now() < end, "{}", server.get(&place).body);
        std::thread::sleep(Duration::from_millis(5));
    }
    let inputs = server.post("/generate", &json!({"inputs": "hello", "parameters": {"max_new_tokens": 3}}));
    assert_eq!(inputs.status, 200, "text-generation-inference's form is answered at once: {}", inputs.body);
    let body = chat_body(json!({"max_tokens": 3})).to_string();
    let headers = [("content-type", "application/json"), ("prefer", "respond-async")];
    let waiting = server.send("POST", "/v1/chat/completions", &headers, body.as_bytes());
    assert_eq!(waiting.status, 202, "{}", waiting.body);
    assert_eq!(waiting.header("preference-applied"), Some("respond-async"));
    let id = waiting.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(ended(&server, &id)["status"], "succeeded");
}
