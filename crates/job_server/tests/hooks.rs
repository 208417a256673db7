//! Webhook endpoints, and what is sent to them.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use job_server::Options;
use job_store::StoreLimits;
use serde_json::{Value, json};
use webhooks::addresses::AddressRules;
use webhooks::secret::Secret;

use crate::support::{CHAT, Server, refused};

const PATH: &str = "/v1/webhook_endpoints";

fn server() -> Server {
    let webhook_rules = AddressRules::parse(["127.0.0.1"]).unwrap();
    let options = Options { webhook_rules, webhook_secret: Some(vec![7; 40]), ..Options::default() };
    Server::with(options, StoreLimits::default())
}

type Got = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

/// A receiver on the loopback that answers with this status. Returns its URL and what it got.
async fn receiver(status: StatusCode) -> (String, Got) {
    let got = Got::default();
    let take = move |State(got): State<Got>, headers: HeaderMap, body: Bytes| async move {
        got.lock().unwrap().push((headers, body));
        status
    };
    let router = Router::new().route("/hook", post(take)).with_state(got.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, got)
}

async fn endpoint(server: &Server, url: &str, types: &[&str]) -> Value {
    let asked = json!({"name": "check", "url": url, "event_types": types});
    server.post(PATH).json(&asked).send().await.expect(200)
}

/// The newest delivery of an endpoint once it is in a state.
async fn delivery(server: &Server, endpoint: &Value, state: &str) -> Value {
    let path = format!("{PATH}/{}/deliveries", endpoint["id"].as_str().unwrap());
    let list = server.until(&path, |list| list["data"][0]["state"] == state).await;
    list["data"][0].clone()
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).unwrap().to_str().unwrap()
}

#[tokio::test]
async fn the_end_of_a_job_is_told_and_signed() {
    let server = server().run();
    let (url, got) = receiver(StatusCode::NO_CONTENT).await;
    let endpoint = endpoint(&server, &url, &["job.succeeded"]).await;
    let id = server.job(json!({})).await;
    let told = delivery(&server, &endpoint, "delivered").await;
    assert_eq!((&told["attempt"], &told["last_status"], &told["job"]), (&json!(1), &json!(204), &json!(id)));
    let (headers, body) = got.lock().unwrap()[0].clone();
    let event: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&event["type"], &event["data"]["id"]), (&json!("job.succeeded"), &json!(id)));
    let secret = Secret::parse(endpoint["signing_secret"].as_str().unwrap()).unwrap();
    let (name, at) = (header(&headers, "webhook-id"), header(&headers, "webhook-timestamp"));
    assert_eq!(event["id"], name);
    let signed = secret.sign(name, at.parse().unwrap(), &body);
    assert_eq!(header(&headers, "webhook-signature"), signed);
    // Again, under the same id.
    let path = format!(
        "{PATH}/{}/deliveries/{}/replay",
        endpoint["id"].as_str().unwrap(),
        told["id"].as_str().unwrap()
    );
    server.post(path).send().await.expect(200);
    delivery(&server, &endpoint, "delivered").await;
    assert_eq!(header(&got.lock().unwrap().last().unwrap().0, "webhook-id"), name);
}

#[tokio::test]
async fn a_job_names_its_own_receiver() {
    let server = server().run();
    let (url, got) = receiver(StatusCode::OK).await;
    let asked = json!({"endpoint": CHAT, "body": {"fail": 400}, "webhook": {"url": url}});
    let id = server.post("/v1/jobs").json(&asked).send().await.expect(202)["id"].clone();
    server.ended(id.as_str().unwrap()).await;
    while got.lock().unwrap().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let (headers, body) = got.lock().unwrap()[0].clone();
    let event: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&event["type"], &event["data"]["id"]), (&json!("job.failed"), &id));
    assert!(headers.get("webhook-signature").is_none(), "nobody has a secret for it");
}

#[tokio::test]
async fn failures_wait_and_gone_receivers_are_asked_no_more() {
    let server = server().run();
    let (url, got) = receiver(StatusCode::FOUND).await;
    let redirects = endpoint(&server, &url, &["job.succeeded"]).await;
    let (gone_url, _) = receiver(StatusCode::GONE).await;
    let gone = endpoint(&server, &gone_url, &["job.succeeded"]).await;
    let id = server.job(json!({})).await;
    server.ended(&id).await;
    let told = delivery(&server, &gone, "discarded").await;
    assert_eq!(told["last_status"], 410);
    let seen = server.get(format!("{PATH}/{}", gone["id"].as_str().unwrap())).send().await.expect(200);
    assert_eq!(seen["status"], "disabled");
    let path = format!("{PATH}/{}/deliveries", redirects["id"].as_str().unwrap());
    let list = server.until(&path, |list| list["data"][0]["last_status"] == 302).await;
    assert_eq!((&list["data"][0]["state"], got.lock().unwrap().len()), (&json!("pending"), 1));
}

#[tokio::test]
async fn an_endpoint_is_tried() {
    let server = server();
    let (url, got) = receiver(StatusCode::NO_CONTENT).await;
    let endpoint = endpoint(&server, &url, &["batch.completed"]).await;
    let path = format!("{PATH}/{}", endpoint["id"].as_str().unwrap());
    let keep = json!({"keep_old_secret_active_for_24_hours": true});
    let rotated = server.post(format!("{path}/rotate_secret")).json(&keep).send().await.expect(200);
    assert_ne!(rotated["signing_secret"], endpoint["signing_secret"]);
    let test = server
        .post(format!("{path}/test"))
        .json(&json!({"event_type": "batch.completed"}))
        .send()
        .await
        .expect(200);
    assert_eq!(
        (&test["object"], &test["success"], &test["status_code"]),
        (&json!("webhook_endpoint.test"), &json!(true), &json!(204))
    );
    let (headers, body) = got.lock().unwrap()[0].clone();
    assert_eq!(header(&headers, "webhook-signature").split(' ').count(), 2, "both secrets sign");
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["type"], "batch.completed");
    let bad = server.post(format!("{path}/test")).json(&json!({"event_type": "x"})).send().await;
    assert_eq!(refused(&bad, 400)["param"], "event_type");
}

#[tokio::test]
async fn endpoints_are_changed_listed_and_deleted() {
    let server = server();
    let made = endpoint(&server, "https://example.com/hook", &["batch.completed", "batch.completed"]).await;
    assert!(
        made["id"].as_str().unwrap().starts_with("we_")
            && made["signing_secret"].as_str().unwrap().starts_with("whsec_")
    );
    let path = format!("{PATH}/{}", made["id"].as_str().unwrap());
    let change = json!({"name": "second", "event_types": ["batch.failed"], "status": "disabled"});
    let changed = server.post(&path).json(&change).send().await.expect(200);
    assert_eq!(
        (&changed["name"], &changed["event_types"], &changed["status"]),
        (&json!("second"), &json!(["batch.failed"]), &json!("disabled"))
    );
    let seen = server.get(&path).send().await.expect(200);
    assert!(seen == changed && seen.get("signing_secret").is_none());
    let list = server.get(PATH).send().await.expect(200);
    assert_eq!((list["data"].as_array().unwrap().len(), &list["data"][0]["id"]), (1, &made["id"]));
    let types = server.get("/v1/webhook_event_types").send().await.expect(200);
    assert!(types["data"].as_array().unwrap().contains(&json!("response.completed")));
    for (method_path, key) in [(&path, "bob")] {
        refused(&server.get(method_path.as_str()).key(key).send().await, 404);
        refused(&server.delete(method_path.as_str()).key(key).send().await, 404);
        refused(&server.get(format!("{method_path}/deliveries")).key(key).send().await, 404);
    }
    refused(&server.post(format!("{path}/deliveries/whd_none/replay")).send().await, 404);
    let gone = server.delete(&path).send().await.expect(200);
    assert_eq!(gone, json!({"id": made["id"], "object": "webhook_endpoint.deleted", "deleted": true}));
    refused(&server.get(&path).send().await, 404);
}

#[tokio::test]
async fn abuse_endpoints_that_lead_inside_are_refused() {
    let server = Server::new();
    for url in [
        "http://127.0.0.1:9000/x",
        "https://localhost/",
        "https://10.0.0.1/",
        "https://u:p@example.com/",
        "file:///etc/passwd",
        "https://2130706433/",
    ] {
        let asked = json!({"name": "n", "url": url, "event_types": ["job.succeeded"]});
        assert_eq!(refused(&server.post(PATH).json(&asked).send().await, 400)["param"], "url", "{url}");
    }
    for (field, value) in [
        ("event_types", json!(["job.invented"])),
        ("event_types", json!([])),
        ("event_types", Value::Null),
        ("name", json!("")),
        ("url", Value::Null),
    ] {
        let mut asked = json!({"name": "n", "url": "https://example.com/", "event_types": ["job.succeeded"]});
        asked[field] = value;
        assert_eq!(refused(&server.post(PATH).json(&asked).send().await, 400)["param"], field);
    }
}
