//! The admin API and the page: who may ask, and what is told.

use fake_provider::{Provider, Script};
use serde_json::{Value, json};

use crate::support::{Reply, Running, ask, chat, post, start, start_with};

const ADMIN: (&str, &str) = ("authorization", "Bearer admin-key-of-the-test");
const USER: (&str, &str) = ("authorization", "Bearer user-key-of-the-test");

/// A gateway with an own machine, a priced service, keys, teams and budgets.
async fn keyed(own: &str, paid: &str, directory: &std::path::Path) -> Running {
    let store = directory.join("ledger.sqlite");
    let config = format!(
        r#"
[store]
sqlite = {store:?}

[[budget]]
window = "month"
money = "50"

[[team]]
name = "search"

[[team.budget]]
window = "day"
requests = 100

[[key]]
name = "root"
env = "ADMIN"
admin = true

[[key]]
name = "ada"
env = "USER"
team = "search"
concurrent = 4

[[upstream]]
name = "own"
url = "{own}/v1"
kind = "openai"
tier = "own"

[[upstream]]
name = "paid"
url = "{paid}/v1"
kind = "openai"
clearance = "public"

[[model]]
name = "main"
aliases = ["alias"]
targets = [{{ upstream = "own" }}]
fallbacks = ["large"]

[[model]]
name = "large"
targets = [{{ upstream = "paid", price = {{ input = "2.5", output = "10" }} }}]
"#
    );
    let secrets = [("ADMIN", "admin-key-of-the-test"), ("USER", "user-key-of-the-test")];
    start_with(&config, &secrets).await
}

async fn get(running: &Running, path: &str, headers: &[(&str, &str)]) -> Reply {
    ask(running.address, "GET", path, headers, "").await
}

#[tokio::test]
async fn only_administrators_may_ask() {
    let provider = Provider::start(Script::new()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let running = keyed(&provider.url(), &provider.url(), directory.path()).await;
    for path in ["/gateway/status", "/gateway/budgets", "/gateway/report", "/gateway/keys"] {
        assert_eq!(get(&running, path, &[]).await.status, 401, "{path}");
        let refused = get(&running, path, &[USER]).await;
        assert_eq!((refused.status, refused.json()["error"]["code"].as_str()), (403, Some("admin_only")));
        let told = get(&running, path, &[ADMIN]).await;
        assert_eq!(told.status, 200, "{told:?}");
        assert!(!told.body.contains("-key-of-the-test"), "{path} tells a key");
    }
    for path in ["/gateway/explain", "/gateway/upstreams/own/drain"] {
        assert_eq!(post(running.address, path, &[USER], "{}").await.status, 403, "{path}");
    }
}

#[tokio::test]
async fn without_keys_this_machine_may_ask_but_no_page_of_another_origin() {
    let provider = Provider::start(Script::new()).await.unwrap();
    let config = crate::support::two(&provider.url(), &provider.url(), "");
    let running = start(&config).await;
    assert_eq!(get(&running, "/gateway/status", &[]).await.status, 200);
    let own = ("origin", "http://localhost");
    assert_eq!(get(&running, "/gateway/status", &[own]).await.status, 200);
    let other = ("origin", "http://evil.example");
    assert_eq!(get(&running, "/gateway/status", &[other]).await.status, 403);
    assert_eq!(post(running.address, "/gateway/upstreams/primary/drain", &[other], "").await.status, 403);
}

#[tokio::test]
async fn status_and_keys_say_what_is_there() {
    let provider = Provider::start(Script::new()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let running = keyed(&provider.url(), &provider.url(), directory.path()).await;
    let status = get(&running, "/gateway/status", &[ADMIN]).await.json();
    let own = &status["upstreams"][0];
    assert_eq!((own["name"].as_str(), own["tier"].as_str()), (Some("own"), Some("own")));
    assert_eq!((own["clearance"].as_str(), own["state"].as_str()), (Some("secret"), Some("ok")));
    assert_eq!(status["models"][0]["fallbacks"], json!(["large"]));
    assert!(status["retries_left"].as_f64().unwrap() > 0.0);
    let keys = get(&running, "/gateway/keys", &[ADMIN]).await.json();
    assert_eq!(keys["keys"][1]["name"], "ada");
    assert_eq!(
        (keys["keys"][1]["team"].as_str(), keys["keys"][1]["concurrent"].as_u64()),
        (Some("search"), Some(4))
    );
    assert_eq!(keys["teams"][0]["budgets"][0]["requests"], 100);
}

#[tokio::test]
async fn budgets_and_reports_follow_the_requests() {
    let provider = Provider::start(Script::new().tokens(10).pace(20, 0)).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let running = keyed(&provider.url(), &provider.url(), directory.path()).await;
    for model in ["main", "large", "large"] {
        let reply = post(running.address, "/v1/chat/completions", &[USER], &chat(model, false)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    // Receipts reach the store by a task of their own.
    let mut report = Value::Null;
    for _ in 0..200 {
        report = get(&running, "/gateway/report?by=key,model", &[ADMIN]).await.json();
        let requests = |row: &Value| row["requests"].as_u64().unwrap_or(0);
        if report["rows"].as_array().is_some_and(|rows| rows.iter().map(requests).sum::<u64>() == 3) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    let rows = report["rows"].as_array().unwrap();
    let row =
        |model: &str| rows.iter().find(|row| row["model"] == model).unwrap_or_else(|| panic!("{report}"));
    assert_eq!((row("large")["key"].as_str(), row("large")["requests"].as_u64()), (Some("ada"), Some(2)));
    assert_eq!(row("main")["invoice"], "0.00");
    assert_ne!(row("large")["invoice"], "0.00");
    // Time is that of own machines.
    assert!(row("main")["own_ms"].as_u64().unwrap() >= 20, "{report}");
    assert_eq!(row("large")["own_ms"], 0);
    let budgets = get(&running, "/gateway/budgets", &[ADMIN]).await.json();
    let all = budgets["budgets"].as_array().unwrap();
    let team = all.iter().find(|budget| budget["scope"] == "team").unwrap();
    assert_eq!((team["name"].as_str(), team["limit"].as_i64()), (Some("search"), Some(100)));
    let money = all.iter().find(|budget| budget["unit"] == "money").unwrap();
    assert_eq!(money["limit"], "50.00");
    assert!(money["share"].as_f64().unwrap() < 1.0);
    let wrong = get(&running, "/gateway/report?by=colour", &[ADMIN]).await;
    assert_eq!((wrong.status, wrong.json()["error"]["param"].as_str()), (400, Some("by")));
    assert_eq!(get(&running, "/gateway/report?since=1", &[ADMIN]).await.status, 400);
}

#[tokio::test]
async fn a_drained_upstream_gets_no_further_requests() {
    let own = Provider::start(Script::new()).await.unwrap();
    let paid = Provider::start(Script::new()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let running = keyed(&own.url(), &paid.url(), directory.path()).await;
    let drained = post(running.address, "/gateway/upstreams/own/drain", &[ADMIN], "").await;
    assert_eq!((drained.status, drained.json()["drained"].as_bool()), (200, Some(true)));
    let reply = post(running.address, "/v1/chat/completions", &[USER], &chat("main", false)).await;
    assert_eq!((reply.status, reply.header("x-gristmill-upstream")), (200, Some("paid")));
    assert_eq!(own.totals().attempts, 0);
    let status = get(&running, "/gateway/status", &[ADMIN]).await.json();
    assert_eq!(status["upstreams"][0]["drained"], true);
    let back = post(running.address, "/gateway/upstreams/own/undrain", &[ADMIN], "").await;
    assert_eq!(back.json()["drained"], false);
    let reply = post(running.address, "/v1/chat/completions", &[USER], &chat("main", false)).await;
    assert_eq!(reply.header("x-gristmill-upstream"), Some("own"));
    assert_eq!(post(running.address, "/gateway/upstreams/nobody/drain", &[ADMIN], "").await.status, 400);
}

#[tokio::test]
async fn explain_says_where_a_request_would_go_and_sends_nothing() {
    let own = Provider::start(Script::new()).await.unwrap();
    let paid = Provider::start(Script::new()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let running = keyed(&own.url(), &paid.url(), directory.path()).await;
    let body: Value = serde_json::from_str(&chat("alias", true)).unwrap();
    let question = json!({"path": "/v1/chat/completions", "body": body, "key": "ada",
        "headers": {"x-gristmill-label": "secret"}});
    let told = post(running.address, "/gateway/explain", &[ADMIN], &question.to_string()).await;
    assert_eq!(told.status, 200, "{told:?}");
    let told = told.json();
    assert_eq!((told["label"].as_str(), told["models"].as_array().map(Vec::len)), (Some("secret"), Some(2)));
    let first = &told["models"][0]["targets"][0];
    assert_eq!((first["upstream"].as_str(), first["chosen"].as_bool()), (Some("own"), Some(true)));
    let second = &told["models"][1]["targets"][0];
    assert_eq!(second["chosen"], false);
    assert_eq!(second["verdict"], "the label is secret, and the upstream's clearance public");
    let text = told["text"].as_str().unwrap();
    for part in
        ["first: model main", "then, as a fallback: model large", "chosen: ", "What follows a failed attempt"]
    {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert_eq!((own.totals().attempts, paid.totals().attempts), (0, 0));
    let metrics = get(&running, "/metrics", &[ADMIN]).await;
    assert!(!metrics.body.contains("gristmill_gateway_requests_total{model=\"main\""), "it was counted");
    for (question, param) in [
        (json!({"path": "/v1/chat/completions", "body": body, "key": "nobody"}), "key"),
        (json!({"path": "/v1/chat/completions", "body": {"model": "none", "messages": []}}), "model"),
    ] {
        let wrong = post(running.address, "/gateway/explain", &[ADMIN], &question.to_string()).await;
        assert!((400..500).contains(&wrong.status), "{wrong:?}");
        assert_eq!(wrong.json()["error"]["param"].as_str(), Some(param), "{wrong:?}");
    }
}

#[tokio::test]
async fn the_page_is_open_and_can_load_nothing_from_elsewhere() {
    let provider = Provider::start(Script::new()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let running = keyed(&provider.url(), &provider.url(), directory.path()).await;
    let page = get(&running, "/", &[]).await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-security-policy").unwrap().contains("default-src 'none'"));
    let etag = page.header("etag").unwrap().to_owned();
    assert_eq!(get(&running, "/", &[("if-none-match", &etag)]).await.status, 304);
    assert_eq!(get(&running, "/page/main.js", &[]).await.status, 200);
    assert_eq!(get(&running, "/page/other.js", &[ADMIN]).await.status, 404);
}
