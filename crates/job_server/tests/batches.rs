//! OpenAI's batches, from the file to the files.

use serde_json::{Value, json};

use crate::support::{CHAT, Server, refused};

fn line(id: &str, more: &Value) -> String {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": id}]});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    json!({"custom_id": id, "method": "POST", "url": CHAT, "body": body}).to_string() + "\n"
}

async fn create(server: &Server, lines: &str) -> String {
    let file = server.file(lines.as_bytes()).await;
    let asked =
        json!({"input_file_id": file, "endpoint": CHAT, "completion_window": "24h", "metadata": {"a": "b"}});
    let batch = server.post("/v1/batches").json(&asked).send().await.expect(200);
    assert_eq!(
        (&batch["object"], &batch["status"], &batch["metadata"]["a"]),
        (&json!("batch"), &json!("validating"), &json!("b"))
    );
    assert_eq!(batch["expires_at"].as_i64().unwrap() - batch["created_at"].as_i64().unwrap(), 86_400);
    batch["id"].as_str().unwrap().to_owned()
}

async fn ended(server: &Server, id: &str) -> Value {
    let over = |batch: &Value| {
        ["completed", "failed", "expired", "cancelled"].contains(&batch["status"].as_str().unwrap())
    };
    server.until(&format!("/v1/batches/{id}"), over).await
}

async fn lines(server: &Server, batch: &Value, file: &str) -> Vec<Value> {
    server.get(format!("/v1/files/{}/content", batch[file].as_str().unwrap())).send().await.lines()
}

#[tokio::test]
async fn a_batch_is_answered_in_order() {
    let server = Server::running();
    let input: String = (0..20).map(|n| line(&n.to_string(), &json!({"ms": 20 - n}))).collect();
    let id = create(&server, &input).await;
    let output = server.get(format!("/v1/batches/{id}/output")).send().await;
    assert_eq!(output.header("content-type"), "application/x-ndjson");
    let followed = output.lines();
    let batch = ended(&server, &id).await;
    assert_eq!((&batch["status"], &batch["error_file_id"]), (&json!("completed"), &Value::Null));
    assert_eq!(batch["request_counts"], json!({"total": 20, "completed": 20, "failed": 0}));
    assert_eq!((&batch["usage"]["total_tokens"], &batch["model"]), (&json!(240), &json!("m")));
    let written = lines(&server, &batch, "output_file_id").await;
    let ids: Vec<&str> = written.iter().map(|line| line["custom_id"].as_str().unwrap()).collect();
    assert_eq!(ids, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(written[3]["response"]["status_code"], 200);
    assert_eq!(followed, written);
    let rest = server.get(format!("/v1/batches/{id}/output?after=16")).send().await.lines();
    assert_eq!(rest, written[17..]);
    let file = server
        .get(format!("/v1/files/{}", batch["output_file_id"].as_str().unwrap()))
        .send()
        .await
        .expect(200);
    assert_eq!(
        (&file["purpose"], &file["filename"]),
        (&json!("batch_output"), &json!(format!("{id}_output.jsonl")))
    );
}

#[tokio::test]
async fn a_bad_line_costs_one_line() {
    let server = Server::running();
    let input = [
        line("good", &json!({})),
        line("hot", &json!({"temperature": "hot"})),
        line("stream", &json!({"stream": true})),
        line("400", &json!({"fail": 400})),
    ];
    let id = create(&server, &input.concat()).await;
    let batch = ended(&server, &id).await;
    assert_eq!(batch["status"], "completed");
    assert_eq!(batch["request_counts"], json!({"total": 4, "completed": 1, "failed": 3}));
    assert_eq!(lines(&server, &batch, "output_file_id").await.len(), 1);
    let errors = lines(&server, &batch, "error_file_id").await;
    let ids: Vec<&str> = errors.iter().map(|line| line["custom_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["hot", "stream", "400"]);
    for error in &errors {
        assert_eq!((&error["error"], &error["response"]["status_code"]), (&Value::Null, &json!(400)));
    }
}

#[tokio::test]
async fn fault_all_lines_failed_is_completed_without_output() {
    let server = Server::running();
    let id = create(&server, &line("a", &json!({"fail": 422}))).await;
    let batch = ended(&server, &id).await;
    assert_eq!((&batch["status"], &batch["output_file_id"]), (&json!("completed"), &Value::Null));
    assert!(batch["error_file_id"].is_string() && batch["errors"].is_null());
}

#[tokio::test]
async fn a_file_with_faults_fails_the_batch() {
    let server = Server::running();
    let good = line("0", &json!({}));
    let other = json!({"custom_id": "1", "method": "POST", "url": "/v1/completions", "body": {}}).to_string();
    for (input, code, number) in [
        (format!("{good}{{not json\n"), "invalid_json_line", json!(2)),
        (format!("{good}{good}"), "duplicate_custom_id", json!(2)),
        (format!("{good}{other}"), "url_mismatch", json!(2)),
        (line("0", &json!({"model": "missing"})), "model_not_found", json!(1)),
        (String::new(), "empty_file", Value::Null),
    ] {
        let id = create(&server, &input).await;
        let batch = ended(&server, &id).await;
        assert_eq!(batch["status"], "failed", "{code}");
        let first = &batch["errors"]["data"][0];
        assert_eq!((&first["code"], &first["line"]), (&json!(code), &number));
        assert_eq!((&batch["output_file_id"], &batch["request_counts"]["total"]), (&Value::Null, &json!(0)));
        assert!(server.get(format!("/v1/batches/{id}/output")).send().await.body.is_empty());
    }
}

#[tokio::test]
async fn batches_that_cannot_be_are_refused() {
    let server = Server::new();
    let file = server.file(b"x").await;
    let good = json!({"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"});
    for (field, value, status) in [
        ("endpoint", json!("/v1/invented"), 400),
        ("endpoint", Value::Null, 400),
        ("completion_window", json!("3 weeks"), 400),
        ("input_file_id", json!("file-none"), 404),
        ("input_file_id", json!(5), 400),
        ("metadata", json!("x"), 400),
        ("output_expires_after.seconds", json!({"anchor": "created_at", "seconds": 60}), 400),
        ("output_expires_after.anchor", json!({"anchor": "now", "seconds": 3_600}), 400),
    ] {
        let mut asked = good.clone();
        asked[field.split('.').next().unwrap()] = value;
        let answer = server.post("/v1/batches").json(&asked).send().await;
        assert_eq!(refused(&answer, status)["param"], field);
    }
    refused(&server.get("/v1/batches/batch_none").send().await, 404);
    refused(&server.post("/v1/batches/batch_none/cancel").send().await, 404);
    refused(&server.get("/v1/batches/batch_none/output").send().await, 404);
}

#[tokio::test]
async fn a_batch_is_cancelled() {
    let server = Server::running();
    let input: String =
        (0..30).map(|n| line(&n.to_string(), &json!({"ms": if n < 4 { 0 } else { 60_000 }}))).collect();
    let id = create(&server, &input).await;
    server.until(&format!("/v1/batches/{id}"), |batch| batch["request_counts"]["completed"] == 4).await;
    let used = server.get(format!("/v1/batches/{id}")).send().await.json()["input_file_id"].clone();
    refused(&server.delete(format!("/v1/files/{}", used.as_str().unwrap())).send().await, 409);
    let asked = server.post(format!("/v1/batches/{id}/cancel")).send().await.expect(200);
    assert_eq!(asked["status"], "cancelling");
    let batch = ended(&server, &id).await;
    assert_eq!(batch["status"], "cancelled");
    assert_eq!(lines(&server, &batch, "output_file_id").await.len(), 4);
    let stopped = lines(&server, &batch, "error_file_id").await;
    assert_eq!(stopped.len(), 26);
    assert!(
        stopped.iter().all(|line| line["error"]["code"] == "batch_cancelled" && line["response"].is_null())
    );
    refused(&server.post(format!("/v1/batches/{id}/cancel")).send().await, 409);
}

#[tokio::test]
async fn batches_are_listed_and_their_own() {
    let server = Server::new();
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(create(&server, &line("a", &json!({}))).await);
    }
    let page = server.get("/v1/batches?limit=2").send().await.expect(200);
    assert_eq!(
        (&page["first_id"], &page["last_id"], &page["has_more"]),
        (&json!(made[2]), &json!(made[1]), &json!(true))
    );
    let rest = server.get(format!("/v1/batches?after={}", made[1])).send().await.expect(200);
    assert_eq!(rest["data"][0]["id"], json!(made[0]));
    assert_eq!(refused(&server.get("/v1/batches?limit=101").send().await, 400)["param"], "limit");
    for (key, status) in [("bob", 404), ("", 200)] {
        assert_eq!(server.get(format!("/v1/batches/{}", made[0])).key(key).send().await.status, status);
        assert_eq!(
            server.get(format!("/v1/batches/{}/output?follow=0", made[0])).key(key).send().await.status,
            status
        );
    }
    assert_eq!(
        server.get(format!("/v1/messages/batches/{}", made[0])).send().await.status,
        404,
        "of the other API"
    );
    assert_eq!(server.get("/v1/batches").key("bob").send().await.expect(200)["data"], json!([]));
}

#[tokio::test]
async fn a_key_makes_one_batch() {
    let server = Server::new();
    let file = server.file(line("a", &json!({})).as_bytes()).await;
    let asked = json!({"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"});
    let ask = |asked: &Value| server.post("/v1/batches").header("idempotency-key", "k").json(asked);
    let first = ask(&asked).send().await.expect(200);
    assert_eq!(ask(&asked).send().await.expect(200)["id"], first["id"]);
    let mut other = asked.clone();
    other["completion_window"] = "7d".into();
    refused(&ask(&other).send().await, 422);
}

#[tokio::test]
async fn a_batch_goes_on_whenever_the_server_ends() {
    let server = Server::new();
    let input: String = (0..1_500).map(|n| line(&n.to_string(), &json!({"ms": n % 3}))).collect();
    let id = create(&server, &input).await;
    for round in 1..12 {
        let running = tokio::spawn(job_server::run(server.jobs.clone(), std::future::pending()));
        tokio::time::sleep(std::time::Duration::from_millis(20 * round)).await;
        running.abort();
        // As if the process had ended; leases of the jobs are taken back by the next one.
        assert!(running.await.is_err());
    }
    let server = server.run();
    let batch = ended(&server, &id).await;
    assert_eq!(batch["request_counts"], json!({"total": 1_500, "completed": 1_500, "failed": 0}));
    let written = lines(&server, &batch, "output_file_id").await;
    let ids: Vec<&str> = written.iter().map(|line| line["custom_id"].as_str().unwrap()).collect();
    assert_eq!(ids, (0..1_500).map(|n| n.to_string()).collect::<Vec<_>>());
}
