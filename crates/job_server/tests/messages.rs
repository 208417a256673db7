//! Anthropic's message batches.

use job_server::Options;
use job_store::StoreLimits;
use serde_json::{Value, json};

use crate::support::{Answer, Server};

const PATH: &str = "/v1/messages/batches";

fn request(id: &str, more: &Value) -> Value {
    let mut params = json!({"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": id}]});
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    json!({"custom_id": id, "params": params})
}

async fn create(server: &Server, requests: Vec<Value>) -> Value {
    server.post(PATH).json(&json!({"requests": requests})).send().await.expect(200)
}

async fn ended(server: &Server, batch: &Value) -> Value {
    let path = format!("{PATH}/{}", batch["id"].as_str().unwrap());
    server.until(&path, |batch| batch["processing_status"] == "ended").await
}

async fn results(server: &Server, batch: &Value) -> Vec<Value> {
    let answer = server.get(format!("{PATH}/{}/results", batch["id"].as_str().unwrap())).send().await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/x-jsonl"));
    answer.lines()
}

/// The type of an error in Anthropic's shape.
#[track_caller]
fn refused(answer: &Answer, status: u16) -> Value {
    let body = answer.expect(status);
    assert!(body["type"] == "error" && body["error"]["message"].is_string(), "{body}");
    body["error"]["type"].clone()
}

#[tokio::test]
async fn a_batch_of_messages_is_answered() {
    let server = Server::running();
    let requests = vec![
        request("good", &json!({})),
        request("bad", &json!({"temperature": "hot"})),
        request("stream", &json!({"stream": true})),
    ];
    let batch = create(&server, requests).await;
    assert_eq!(
        (&batch["type"], &batch["processing_status"]),
        (&json!("message_batch"), &json!("in_progress"))
    );
    assert_eq!(batch["request_counts"]["processing"], 3, "known from the beginning");
    assert_eq!((&batch["results_url"], &batch["ended_at"]), (&Value::Null, &Value::Null));
    let done = ended(&server, &batch).await;
    let counts = json!({"processing": 0, "succeeded": 1, "errored": 2, "canceled": 0, "expired": 0});
    assert_eq!(done["request_counts"], counts);
    assert!(done["results_url"].as_str().unwrap().ends_with("/results"));
    let results = results(&server, &batch).await;
    let kinds: Vec<(&Value, &Value)> =
        results.iter().map(|line| (&line["custom_id"], &line["result"]["type"])).collect();
    let (good, errored) = (json!("succeeded"), json!("errored"));
    assert_eq!(kinds, [(&json!("good"), &good), (&json!("bad"), &errored), (&json!("stream"), &errored)]);
    assert_eq!(results[0]["result"]["message"]["type"], "message");
    assert_eq!(results[1]["result"]["error"]["error"]["type"], "invalid_request_error");
    let files = server.get("/v1/files").send().await.expect(200);
    assert_eq!(files["data"], json!([]), "its files are hidden");
}

#[tokio::test]
async fn a_batch_is_canceled_and_deleted() {
    let server = Server::running();
    let requests = (0..10).map(|n| request(&n.to_string(), &json!({"ms": 60_000}))).collect();
    let batch = create(&server, requests).await;
    let path = format!("{PATH}/{}", batch["id"].as_str().unwrap());
    refused(&server.delete(&path).send().await, 409);
    refused(&server.get(format!("{path}/results")).send().await, 409);
    for _ in 0..2 {
        let asked = server.post(format!("{path}/cancel")).send().await.expect(200);
        assert!(asked["cancel_initiated_at"].is_string(), "{asked}");
    }
    let done = ended(&server, &batch).await;
    assert_eq!(done["request_counts"]["canceled"], 10);
    assert!(results(&server, &batch).await.iter().all(|line| line["result"]["type"] == "canceled"));
    let gone = server.delete(&path).send().await.expect(200);
    assert_eq!(gone, json!({"id": batch["id"], "type": "message_batch_deleted"}));
    assert_eq!(refused(&server.get(&path).send().await, 404), "not_found_error");
}

#[tokio::test]
async fn batches_are_listed_both_ways() {
    let server = Server::new();
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(create(&server, vec![request("a", &json!({}))]).await["id"].clone());
    }
    let ids = |page: &Value| -> Vec<Value> {
        page["data"].as_array().unwrap().iter().map(|batch| batch["id"].clone()).collect()
    };
    let text = |id: &Value| id.as_str().unwrap().to_owned();
    let page = server.get(format!("{PATH}?limit=2")).send().await.expect(200);
    assert_eq!((ids(&page), &page["has_more"]), (vec![made[2].clone(), made[1].clone()], &json!(true)));
    assert_eq!((&page["first_id"], &page["last_id"]), (&made[2], &made[1]));
    let after = server.get(format!("{PATH}?after_id={}", text(&made[1]))).send().await.expect(200);
    assert_eq!(ids(&after), [made[0].clone()]);
    let before = server.get(format!("{PATH}?limit=1&before_id={}", text(&made[0]))).send().await.expect(200);
    assert_eq!(ids(&before), [made[1].clone()]);
    refused(&server.get(format!("{PATH}?limit=1001")).send().await, 400);
    refused(&server.get(format!("{PATH}?after_id=a&before_id=b")).send().await, 400);
    let path = format!("{PATH}/{}", text(&made[0]));
    refused(&server.get(&path).key("bob").send().await, 404);
    assert_eq!(
        server.get(format!("/v1/batches/{}", text(&made[0]))).send().await.status,
        404,
        "of the other API"
    );
}

#[tokio::test]
async fn batches_that_cannot_be_are_refused() {
    let options = Options { max_message_bytes: 10_000, max_message_requests: 2, ..Options::default() };
    let server = Server::with(options, StoreLimits::default());
    let a = request("a", &json!({}));
    for (status, body) in [
        (400, json!({})),
        (400, json!({"requests": []})),
        (400, json!({"requests": [a, a]})),
        (400, json!({"requests": [{"custom_id": "x".repeat(65), "params": {}}]})),
        (400, json!({"requests": [{"custom_id": "x"}]})),
        (400, json!([])),
        (
            413,
            json!({"requests": [request("1", &json!({})), request("2", &json!({})), request("3", &json!({}))]}),
        ),
        (413, json!({"requests": [request("1", &json!({"system": "x".repeat(20_000)}))]})),
    ] {
        refused(&server.post(PATH).json(&body).send().await, status);
    }
    refused(&server.post(PATH).bytes("application/json", "{\"requests\": [").send().await, 400);
    refused(&server.post(PATH).bytes("text/plain", "{}").send().await, 415);
    refused(&server.get(format!("{PATH}/msgbatch_none")).send().await, 404);
    assert_eq!(server.get(PATH).send().await.expect(200)["data"], json!([]));
}

#[tokio::test]
async fn a_key_makes_one_batch() {
    let server = Server::new();
    let body = json!({"requests": [request("a", &json!({}))]});
    let ask = |body: &Value| server.post(PATH).header("idempotency-key", "k").json(body);
    let first = ask(&body).send().await.expect(200);
    assert_eq!(ask(&body).send().await.expect(200)["id"], first["id"]);
    refused(&ask(&json!({"requests": [request("b", &json!({}))]})).send().await, 422);
}
