//! `/v1/jobs`, `Prefer: respond-async` and tasks.

use job_server::Options;
use job_server::faces::{accept_guide, guide_body, prefers_async, respond_async};
use job_store::StoreLimits;
use serde_json::{Value, json};

use crate::support::{Answer, CHAT, Server, refused};

fn chat() -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": "a"}], "max_tokens": 8})
}

#[tokio::test]
async fn a_job_is_accepted_and_ends() {
    let server = Server::running();
    let asked = json!({"endpoint": CHAT, "body": chat(), "metadata": {"row": "1"}, "priority": "batch"});
    let answer = server.post("/v1/jobs").json(&asked).send().await;
    let job = answer.expect(202);
    assert_eq!(answer.header("location"), format!("/v1/jobs/{}", job["id"].as_str().unwrap()));
    assert!((1..=60).contains(&answer.header("retry-after").parse::<u32>().unwrap()));
    assert_eq!(
        (&job["object"], &job["metadata"]["row"], &job["priority"]),
        (&json!("job"), &json!("1"), &json!("batch"))
    );
    assert_eq!(job["progress"]["output_limit"], 8);
    let id = job["id"].as_str().unwrap();
    let done = server.ended(id).await;
    assert_eq!(
        (&done["status"], &done["attempts"], &done["seed"]),
        (&json!("succeeded"), &json!(1), &json!(7))
    );
    assert_eq!(done["result"]["object"], "chat.completion");
    assert_eq!(done["usage"]["total_tokens"], 12);
    let result = server.get(format!("/v1/jobs/{id}/result")).send().await;
    assert_eq!(result.expect(200), done["result"]);
    assert_eq!(jobs::sha256_hex(&result.body), done["result_sha256"].as_str().unwrap());
}

#[tokio::test]
async fn what_cannot_run_is_refused_at_once() {
    let server = Server::new();
    let with = |field: &str, value: Value| {
        let mut asked = json!({"endpoint": CHAT, "body": chat()});
        asked[field] = value;
        asked
    };
    for (status, param, asked) in [
        (400, "endpoint", with("endpoint", json!("/v1/invented"))),
        (400, "endpoint", with("endpoint", Value::Null)),
        (400, "body", with("body", json!("text"))),
        (400, "body.temperature", with("body", json!({"temperature": "hot"}))),
        (400, "body.stream", with("body", json!({"stream": true}))),
        (404, "body.model", with("body", json!({"model": "missing"}))),
        (400, "priority", with("priority", json!("urgent"))),
        (400, "run_at", with("run_at", json!(-1))),
        (400, "deadline_seconds", with("deadline_seconds", json!(0))),
        (400, "retain_seconds", with("retain_seconds", json!(1e30))),
        (400, "max_attempts", with("max_attempts", json!(21))),
        (400, "metadata", with("metadata", json!({"a": 1}))),
        (400, "webhook", with("webhook", json!({}))),
        (400, "webhook.url", with("webhook", json!({"url": "http://localhost/x"}))),
        (404, "webhook.endpoint_id", with("webhook", json!({"endpoint_id": "we_none"}))),
    ] {
        let answer = server.post("/v1/jobs").json(&asked).send().await;
        assert_eq!(refused(&answer, status)["param"], param, "{asked}");
    }
    refused(&server.post("/v1/jobs").bytes("application/json", "{").send().await, 400);
    refused(&server.post("/v1/jobs").bytes("text/plain", "{}").send().await, 415);
    let large = vec![b' '; wire::limits::BODY_BYTES + 1];
    refused(&server.post("/v1/jobs").bytes("application/json", large).send().await, 413);
    let none = server.get("/v1/jobs").send().await.expect(200);
    assert_eq!(none["data"], json!([]), "nothing was accepted");
}

#[tokio::test]
async fn a_key_makes_one_job() {
    let server = Server::new();
    let asked = json!({"endpoint": CHAT, "body": chat()});
    let ask =
        |key: &'static str, asked: &Value| server.post("/v1/jobs").header("idempotency-key", key).json(asked);
    let first = ask("k", &asked).send().await;
    let second = ask("k", &asked).send().await;
    assert_eq!(first.expect(202)["id"], second.expect(202)["id"]);
    assert_eq!((first.header("idempotent-replayed"), second.header("idempotent-replayed")), ("", "true"));
    let spaced = serde_json::to_string_pretty(&json!({"body": chat(), "endpoint": CHAT})).unwrap();
    let third =
        server.post("/v1/jobs").header("idempotency-key", "k").bytes("application/json", spaced).send().await;
    assert_eq!(third.expect(202)["id"], first.json()["id"], "the same, written otherwise");
    refused(&ask("k", &json!({"endpoint": CHAT, "body": {"model": "n"}})).send().await, 422);
    assert_ne!(
        ask("k", &asked).key("bob").send().await.expect(202)["id"],
        first.json()["id"],
        "keys have their own"
    );
    refused(&ask("", &asked).send().await, 400);
    refused(&ask("a b", &asked).send().await, 400);
}

#[tokio::test]
async fn a_key_can_be_required() {
    let options = Options { require_idempotency: true, ..Options::default() };
    let server = Server::with(options, StoreLimits::default());
    let asked = json!({"endpoint": CHAT, "body": chat()});
    let error = refused(&server.post("/v1/jobs").json(&asked).send().await, 400);
    assert_eq!(error["code"], "idempotency_key_required");
    server.post("/v1/jobs").header("idempotency-key", "k").json(&asked).send().await.expect(202);
}

#[tokio::test]
async fn deadlines_that_cannot_be_met_are_told() {
    let server = Server::new();
    let asked = json!({"endpoint": CHAT, "body": chat(), "deadline_seconds": 1});
    let warned = server.post("/v1/jobs").json(&asked).send().await.expect(202);
    assert!(warned["warning"].as_str().unwrap().contains("deadline"), "{warned}");
    let mut strict = asked;
    strict["strict"] = true.into();
    refused(&server.post("/v1/jobs").json(&strict).send().await, 409);
}

#[tokio::test]
async fn other_keys_see_nothing() {
    let options = Options { operators: vec!["boss".into()], ..Options::default() };
    let server = Server::with(options, StoreLimits::default());
    let asked = json!({"endpoint": CHAT, "body": chat()});
    let job = server.post("/v1/jobs").key("alice").json(&asked).send().await.expect(202);
    let id = job["id"].as_str().unwrap();
    for (method, end) in [
        ("GET", ""),
        ("GET", "/events"),
        ("GET", "/result"),
        ("POST", "/cancel"),
        ("POST", "/retry"),
        ("DELETE", ""),
    ] {
        let path = format!("/v1/jobs/{id}{end}");
        let ask = match method {
            "GET" => server.get(path),
            "POST" => server.post(path),
            _ => server.delete(path),
        };
        refused(&ask.key("bob").send().await, 404);
    }
    refused(&server.get(format!("/status/{id}")).key("bob").send().await, 404);
    assert_eq!(server.get("/v1/jobs").key("bob").send().await.expect(200)["data"], json!([]));
    assert_eq!(server.get("/v1/jobs").key("boss").send().await.expect(200)["data"][0]["id"], id);
    server.get(format!("/v1/jobs/{id}")).key("boss").send().await.expect(200);
    server.get(format!("/v1/jobs/{id}")).key("alice").send().await.expect(200);
}

#[tokio::test]
async fn an_unchanged_job_is_304() {
    let server = Server::new();
    let id = server.job(chat()).await;
    let first = server.get(format!("/v1/jobs/{id}")).send().await;
    let tag = first.header("etag").to_owned();
    let again = server.get(format!("/v1/jobs/{id}")).header("if-none-match", &tag).send().await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    server.post(format!("/v1/jobs/{id}/cancel")).send().await.expect(200);
    server.get(format!("/v1/jobs/{id}")).header("if-none-match", &tag).send().await.expect(200);
}

#[tokio::test]
async fn waits_are_bounded() {
    let server = Server::new();
    let id = server.job(chat()).await;
    assert_eq!(server.get(format!("/v1/jobs/{id}?wait=0")).send().await.expect(200)["status"], "queued");
    for wait in ["61", "-1", "soon"] {
        let answer = server.get(format!("/v1/jobs/{id}?wait={wait}")).send().await;
        assert_eq!(refused(&answer, 400)["param"], "wait");
    }
    let cancel = async {
        tokio::task::yield_now().await;
        server.post(format!("/v1/jobs/{id}/cancel")).send().await.expect(200)
    };
    let (ended, _) = tokio::join!(server.ended(&id), cancel);
    assert_eq!(ended["status"], "cancelled");
}

#[tokio::test]
async fn ends_can_be_undone() {
    let server = Server::new();
    let id = server.job(chat()).await;
    refused(&server.post(format!("/v1/jobs/{id}/retry")).send().await, 409);
    refused(&server.delete(format!("/v1/jobs/{id}")).send().await, 409);
    refused(&server.get(format!("/v1/jobs/{id}/result")).send().await, 404);
    for _ in 0..2 {
        let cancelled = server.post(format!("/v1/jobs/{id}/cancel")).send().await.expect(200);
        assert_eq!(cancelled["status"], "cancelled");
    }
    let again =
        server.post(format!("/v1/jobs/{id}/retry")).json(&json!({"deadline_seconds": 60})).send().await;
    assert_eq!(again.expect(200)["status"], "queued");
    server.post(format!("/v1/jobs/{id}/cancel")).send().await.expect(200);
    let deleted = server.delete(format!("/v1/jobs/{id}")).send().await.expect(200);
    assert_eq!(deleted, json!({"id": id, "object": "job", "deleted": true}));
    refused(&server.get(format!("/v1/jobs/{id}")).send().await, 404);
}

#[tokio::test]
async fn jobs_are_listed_and_counted() {
    let server = Server::new();
    let mut made = Vec::new();
    // Several of them are made in one millisecond.
    for _ in 0..3 {
        made.push(server.job(chat()).await);
    }
    made.reverse();
    let page = server.get("/v1/jobs?limit=2").send().await.expect(200);
    assert_eq!((&page["object"], &page["has_more"]), (&json!("list"), &json!(true)));
    assert_eq!([&page["first_id"], &page["last_id"]], [&json!(made[0]), &json!(made[1])]);
    let rest = server.get(format!("/v1/jobs?limit=2&after={}", made[1])).send().await.expect(200);
    assert_eq!((&rest["data"][0]["id"], &rest["has_more"]), (&json!(made[2]), &json!(false)));
    assert_eq!(server.get("/v1/jobs?status=running").send().await.expect(200)["data"], json!([]));
    assert_eq!(server.get("/v1/jobs?model=other").send().await.expect(200)["data"], json!([]));
    assert_eq!(server.get("/v1/jobs?dead=1").send().await.expect(200)["data"], json!([]));
    for (query, param) in
        [("limit=0", "limit"), ("limit=101", "limit"), ("status=lost", "status"), ("dead=x", "dead")]
    {
        assert_eq!(refused(&server.get(format!("/v1/jobs?{query}")).send().await, 400)["param"], param);
    }
    let stats = server.get("/v1/jobs/stats").send().await.expect(200);
    assert_eq!(
        (&stats["object"], &stats["queued"], &stats["dead"]),
        (&json!("job.stats"), &json!(3), &json!(0))
    );
    assert_eq!(stats["drained_in_seconds"], 5.0);
}

#[tokio::test]
async fn ended_jobs_are_queued_again_together() {
    let server = Server::new();
    for _ in 0..3 {
        let id = server.job(chat()).await;
        server.post(format!("/v1/jobs/{id}/cancel")).send().await.expect(200);
    }
    let dead = server.post("/v1/jobs/retry").send().await.expect(200);
    assert_eq!(dead, json!({"retried": 0, "has_more": false}), "only dead ones unless told");
    let filter = json!({"filter": {"status": "cancelled"}});
    let all = server.post("/v1/jobs/retry").json(&filter).send().await.expect(200);
    assert_eq!(all["retried"], 3);
    for bad in [json!({"status": "running"}), json!({"dead": false})] {
        refused(&server.post("/v1/jobs/retry").json(&json!({"filter": bad})).send().await, 400);
    }
}

#[tokio::test]
async fn a_failure_is_told() {
    let server = Server::running();
    let id = server.job(json!({"model": "m", "fail": 400})).await;
    let job = server.ended(&id).await;
    assert_eq!(
        (&job["status"], &job["status_code"], &job["dead"]),
        (&json!("failed"), &json!(400), &json!(false))
    );
    assert_eq!(
        (&job["error"]["param"], &job["error"]["type"]),
        (&json!("fail"), &json!("invalid_request_error"))
    );
    assert_eq!(job["result"]["error"]["code"], "invalid_value");
}

#[tokio::test]
async fn a_full_queue_says_so() {
    let limits = StoreLimits { open_jobs_of_key: 1, ..StoreLimits::default() };
    let server = Server::with(Options::default(), limits);
    server.job(chat()).await;
    let answer = server.post("/v1/jobs").json(&json!({"endpoint": CHAT, "body": chat()})).send().await;
    assert_eq!(refused(&answer, 429)["code"], "queue_full");
    assert!(answer.header("retry-after").parse::<u32>().unwrap() > 0);
    let limits = StoreLimits { bytes: 10, ..StoreLimits::default() };
    let server = Server::with(Options::default(), limits);
    let answer = server.post("/v1/jobs").json(&json!({"endpoint": CHAT, "body": chat()})).send().await;
    assert_eq!(refused(&answer, 507)["code"], "storage_full");
}

async fn preferred(server: &Server, prefer: &str, body: Value) -> Answer {
    let request = axum::http::Request::builder().uri(CHAT).method("POST").header("prefer", prefer);
    let (head, ()) = request.body(()).unwrap().into_parts();
    assert!(prefers_async(&head.headers));
    Answer::of(respond_async(&server.jobs, head, body.to_string().into_bytes()).await).await
}

#[tokio::test]
async fn any_request_can_become_a_job() {
    let server = Server::running();
    let answer = preferred(&server, "respond-async", chat()).await;
    let job = answer.expect(202);
    assert_eq!(answer.header("preference-applied"), "respond-async");
    assert_eq!(answer.header("location"), format!("/v1/jobs/{}", job["id"].as_str().unwrap()));
    let answer = preferred(&server, "respond-async, wait=30", chat()).await;
    assert_eq!(answer.expect(200)["object"], "chat.completion");
    assert_eq!(answer.header("preference-applied"), "respond-async, wait=30");
    let failed = preferred(&server, "respond-async, wait=30", json!({"fail": 400})).await;
    assert_eq!(refused(&failed, 400)["param"], "fail");
    refused(&preferred(&server, "respond-async", json!({"stream": true})).await, 400);
    let slow = preferred(&server, "respond-async, wait=1", json!({"ms": 60_000})).await;
    let id = slow.expect(202)["id"].as_str().unwrap().to_owned();
    server.post(format!("/v1/jobs/{id}/cancel")).send().await.expect(200);
}

#[tokio::test]
async fn guides_poll_their_tasks() {
    let server = Server::running();
    let (head, ()) = axum::http::Request::builder().uri("/generate").body(()).unwrap().into_parts();
    let body = guide_body(br#"{"prompt": "France", "max_tokens": 8}"#).unwrap();
    let answer = Answer::of(accept_guide(&server.jobs, head, body).await).await;
    let task = answer.expect(202);
    assert_eq!(task["status"], "pending");
    let path = task["status_url"].as_str().unwrap();
    let done = server
        .until(path, |task| !["pending", "processing"].contains(&task["status"].as_str().unwrap()))
        .await;
    let want = json!({"task_id": task["task_id"], "status": "completed", "result": "an answer to France", "error": null});
    assert_eq!(done, want);
    refused(&server.get("/status/none").send().await, 404);
    let id = server.job(json!({"fail": 400})).await;
    server.ended(&id).await;
    let failed = server.get(format!("/status/{id}")).send().await.expect(200);
    assert_eq!((&failed["status"], &failed["error"]), (&json!("failed"), &json!("it was to fail")));
}
