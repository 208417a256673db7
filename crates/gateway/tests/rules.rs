//! Keys, budgets, labels, classes and dialects: what the gateway allows, and what it refuses.

use std::time::Duration;

use fake_provider::{Fault, Price, Provider, Script, When};
use gateway::read_config;

use crate::support::{ask, chat, post, start, start_with, two};

fn bearer(key: &str) -> [(&'static str, String); 1] {
    [("authorization", format!("Bearer {key}"))]
}

async fn chat_as(
    address: std::net::SocketAddr,
    key: &str,
    more: &[(&str, &str)],
    body: &str,
) -> crate::support::Reply {
    let shown = bearer(key);
    let mut headers: Vec<(&str, &str)> = shown.iter().map(|(n, v)| (*n, v.as_str())).collect();
    headers.extend_from_slice(more);
    post(address, "/v1/chat/completions", &headers, body).await
}

#[tokio::test]
async fn keys_open_models_and_are_limited() {
    let provider = Provider::start(Script::new()).await.unwrap();
    let config = two(
        &provider.url(),
        &provider.url(),
        r#"
[[key]]
name = "a"
env = "KEY_A"
models = ["main"]

[[key]]
name = "b"
env = "KEY_B"
requests_per_minute = 1
"#,
    );
    let running = start_with(&config, &[("KEY_A", "alpha"), ("KEY_B", "beta")]).await;
    let (main, other) = (chat("main", false), chat("other", false));
    assert_eq!(post(running.address, "/v1/chat/completions", &[], &main).await.status, 401);
    assert_eq!(chat_as(running.address, "gamma", &[], &main).await.status, 401);
    assert_eq!(chat_as(running.address, "alpha", &[], &main).await.status, 200);
    let refused = chat_as(running.address, "alpha", &[], &other).await;
    assert_eq!((refused.status, refused.json()["error"]["code"].as_str()), (404, Some("model_not_found")));
    assert!(!refused.body.contains("served: other"), "{}", refused.body);
    assert_eq!(chat_as(running.address, "beta", &[], &other).await.status, 200);
    let limited = chat_as(running.address, "beta", &[], &other).await;
    assert_eq!(limited.status, 429);
    assert!(limited.header("retry-after").is_some());
    let shown = bearer("alpha");
    let headers: Vec<(&str, &str)> = shown.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let models = ask(running.address, "GET", "/v1/models", &headers, "").await.json();
    assert_eq!(models["data"].as_array().unwrap().len(), 1, "{models}");
}

/// Prices of the configuration for a million tokens: 1 and 10 units. The provider's are pico units a token.
const PRICE: Price = Price { input: 1_000_000, cached_input: 1_000_000, output: 10_000_000 };

fn priced(url: &str, store: &std::path::Path, budget: &str) -> String {
    format!(
        r#"
[[upstream]]
name = "paid"
url = "{url}/v1"
kind = "openai"

[[model]]
name = "main"
targets = [{{ upstream = "paid", price = {{ input = "1", output = "10" }} }}]

[store]
sqlite = "{}"

[[budget]]
window = "total"
{budget}
"#,
        store.display()
    )
}

#[tokio::test]
async fn a_cap_on_money_holds_under_a_thousand_requests_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let provider = Provider::start(Script::new().tokens(50).price(PRICE)).await.unwrap();
    let config = priced(&provider.url(), &folder.path().join("ledger.db"), "money = \"0.05\"");
    let running = start(&config).await;
    let body = serde_json::json!({
        "model": "main", "max_tokens": 100, "messages": [{"role": "user", "content": "Write fifty words."}],
    })
    .to_string();
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let (address, body) = (running.address, body.clone());
            tokio::spawn(async move { post(address, "/v1/chat/completions", &[], &body).await.status })
        })
        .collect();
    let mut counts = std::collections::BTreeMap::<u16, u32>::new();
    for task in tasks {
        *counts.entry(task.await.unwrap()).or_default() += 1;
    }
    let cap = 50_000_000_000_u128; // pico units
    assert!(provider.totals().billed <= cap, "{} of {cap}, {counts:?}", provider.totals().billed);
    // Where all are reserved before one is settled, as many fit as have room at their bounds: twice what they cost.
    assert!(provider.totals().billed * 3 > cap, "{} of {cap}, {counts:?}", provider.totals().billed);
    assert!(counts.keys().all(|status| [200, 429].contains(status)), "{counts:?}");
    assert!(counts.contains_key(&200) && counts.contains_key(&429), "{counts:?}");
    let refused = post(running.address, "/v1/chat/completions", &[], &body).await;
    if refused.status == 429 {
        assert!(refused.body.contains("budget"), "{}", refused.body);
    }
}

#[tokio::test]
async fn what_failed_for_certain_is_not_charged_and_what_may_be_billed_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("ledger.db");
    // Refused requests cost nothing, so that the cap is not reached by them.
    let script = Script::new().tokens(5).price(PRICE).fault(When::requests([1]), Fault::status(503));
    let provider = Provider::start(script).await.unwrap();
    let config = priced(&provider.url(), &store, "money = \"0.006\"");
    let running = start(&config).await;
    let body = serde_json::json!({
        "model": "main", "max_tokens": 400, "messages": [{"role": "user", "content": "Hi"}],
    })
    .to_string();
    assert_eq!(post(running.address, "/v1/chat/completions", &[], &body).await.status, 503);
    // A provider that is overloaded is left alone for a second.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let answered = post(running.address, "/v1/chat/completions", &[], &body).await;
    assert_eq!(answered.status, 200, "{answered:?}");
    // An answer that was lost after it was sent counts at its bound, and closes the cap.
    provider.set_script(Script::new().tokens(5).price(PRICE).billed_fault(When::always(), Fault::Reset));
    let lost = post(running.address, "/v1/chat/completions", &[], &body).await;
    assert!(lost.status >= 500 || lost.status == 429, "{lost:?}");
    provider.set_script(Script::new().tokens(5).price(PRICE));
    let closed = post(running.address, "/v1/chat/completions", &[], &body).await;
    assert_eq!(closed.status, 429, "{closed:?}");
}

#[test]
fn a_price_that_is_not_known_is_refused_under_a_cap() {
    let config = priced("http://127.0.0.1:1", std::path::Path::new("x.db"), "money = \"1\"");
    let error = read_config(&config.replace(", price = { input = \"1\", output = \"10\" }", "")).unwrap_err();
    assert!(error.to_string().contains("no price"), "{error}");
}

fn labelled(own: &str, outside: &str, more: &str) -> String {
    format!(
        r#"
[[upstream]]
name = "own"
url = "{own}/v1"
kind = "openai"
tier = "own"

[[upstream]]
name = "outside"
url = "{outside}/v1"
kind = "openai"

[[model]]
name = "main"
targets = [{{ upstream = "own" }}]
fallbacks = ["away"]

[[model]]
name = "away"
targets = [{{ upstream = "outside" }}]
{more}"#
    )
}

#[tokio::test]
async fn a_secret_request_stays_whatever_fails() {
    for fault in [Fault::status(503), Fault::Reset, Fault::rate_limited("1"), Fault::ContextLength] {
        let own = Provider::start(Script::new().fault(When::always(), fault)).await.unwrap();
        let outside = Provider::start(Script::new()).await.unwrap();
        let running = start(&labelled(&own.url(), &outside.url(), "")).await;
        let secret = [("x-gristmill-label", "secret")];
        for model in ["main", "away"] {
            let reply = post(running.address, "/v1/chat/completions", &secret, &chat(model, true)).await;
            assert_ne!(reply.status, 200, "{reply:?}");
        }
        assert_eq!(outside.totals().attempts, 0);
        // The same request without the label goes out.
        assert_eq!(post(running.address, "/v1/chat/completions", &[], &chat("main", true)).await.status, 200);
        assert_eq!(outside.totals().attempts, 1);
    }
}

#[tokio::test]
async fn what_is_found_in_a_text_raises_its_label() {
    let own = Provider::start(Script::new()).await.unwrap();
    let outside = Provider::start(Script::new()).await.unwrap();
    let running = start(&labelled(&own.url(), &outside.url(), "[privacy]\n")).await;
    let body = |text: &str| {
        serde_json::json!({"model": "away", "messages": [{"role": "user", "content": text}]}).to_string()
    };
    let plain = post(running.address, "/v1/chat/completions", &[], &body("What is a mill?")).await;
    assert_eq!((plain.status, plain.header("x-gristmill-label")), (200, Some("public")));
    let card = "My card is 4111 1111 1111 1111, is it valid?";
    let refused = post(running.address, "/v1/chat/completions", &[], &body(card)).await;
    assert_eq!(
        (refused.status, refused.json()["error"]["code"].as_str()),
        (403, Some("label_not_permitted"))
    );
    assert_eq!(outside.totals().attempts, 1);
}

#[tokio::test]
async fn every_dialect_reaches_every_provider() {
    let provider = Provider::start(Script::new().tokens(8)).await.unwrap();
    let url = provider.url();
    let mut config = String::new();
    for (name, kind, base) in
        [("openai", "openai", "/v1"), ("anthropic", "anthropic", ""), ("gemini", "gemini", "")]
    {
        config.push_str(&format!(
            "[[upstream]]\nname = \"{name}\"\nurl = \"{url}{base}\"\nkind = \"{kind}\"\n\
             [[model]]\nname = \"{name}-model\"\ntargets = [{{ upstream = \"{name}\", model = \"m\" }}]\n"
        ));
    }
    let running = start(&config).await;
    let text = "Explain trust.";
    for model in ["openai-model", "anthropic-model", "gemini-model"] {
        for stream in [false, true] {
            let chat = serde_json::json!({"model": model, "stream": stream, "messages": [{"role": "user", "content": text}]});
            let responses = serde_json::json!({"model": model, "stream": stream, "input": text});
            let messages = serde_json::json!({
                "model": model, "stream": stream, "max_tokens": 50, "messages": [{"role": "user", "content": text}],
            });
            let gemini = serde_json::json!({"contents": [{"role": "user", "parts": [{"text": text}]}]});
            let method = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
            let gemini_path = format!("/v1beta/models/{model}:{method}");
            for (path, body, end) in [
                ("/v1/chat/completions", &chat, "[DONE]"),
                ("/v1/responses", &responses, "response.completed"),
                ("/v1/messages", &messages, "message_stop"),
                (gemini_path.as_str(), &gemini, "finishReason"),
            ] {
                let reply = post(running.address, path, &[], &body.to_string()).await;
                assert_eq!(reply.status, 200, "{model} {path}: {reply:?}");
                assert!(!stream || reply.body.contains(end), "{model} {path}: {reply:?}");
                assert!(!reply.body.contains("\"error\":{"), "{model} {path}: {reply:?}");
            }
        }
    }
}

#[tokio::test]
async fn errors_have_the_clients_shape() {
    let provider = Provider::start(Script::new().fault(When::always(), Fault::status(400))).await.unwrap();
    let running = start(&two(&provider.url(), &provider.url(), "")).await;
    let messages =
        serde_json::json!({"model": "main", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]});
    let reply = post(running.address, "/v1/messages", &[], &messages.to_string()).await;
    assert_eq!((reply.status, reply.json()["type"].as_str()), (400, Some("error")), "{reply:?}");
    let unknown =
        post(running.address, "/v1/messages", &[], &messages.to_string().replace("main", "nobody")).await;
    assert_eq!((unknown.status, unknown.json()["error"]["type"].as_str()), (404, Some("not_found_error")));
}

#[tokio::test]
async fn more_than_fit_are_refused_at_once() {
    let provider = Provider::start(Script::new().pace(2_000, 0)).await.unwrap();
    let limits = "[admission]\nrunning = 2\nwaiting = 1\nwait = \"10s\"\nreserved = 0.0\n";
    let running = start(
        &two(&provider.url(), &provider.url(), limits)
            .replace("first_byte = \"400ms\"", "first_byte = \"9s\""),
    )
    .await;
    let address = running.address;
    let busy: Vec<_> = (0..3)
        .map(|_| {
            tokio::spawn(
                async move { post(address, "/v1/chat/completions", &[], &chat("main", false)).await },
            )
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let refused = post(address, "/v1/chat/completions", &[], &chat("main", false)).await;
    assert_eq!((refused.status, refused.json()["error"]["code"].as_str()), (429, Some("queue_full")));
    assert!(refused.header("retry-after").is_some());
    for task in busy {
        assert_eq!(task.await.unwrap().status, 200);
    }
}

#[test]
fn a_configuration_names_what_is_wrong() {
    let good = two("http://127.0.0.1:1", "http://127.0.0.1:2", "");
    assert!(read_config(&good).is_ok());
    for (from, to, wanted) in [
        ("upstream = \"backup\" }]", "upstream = \"nobody\" }]", "\"nobody\" is not there"),
        ("name = \"other\"", "name = \"other\"\nfallbacks = [\"main\"]", "lead back"),
        ("name = \"other\"", "name = \"main\"", "twice"),
        ("kind = \"openai\"\n\n[[model]]", "kind = \"openia\"\n\n[[model]]", "openia"),
        ("on_cut = \"replay\"", "on_cuts = \"replay\"", "on_cuts"),
        ("fallbacks = [\"other\"]", "fallbacks = [\"nothing\"]", "\"nothing\" is no model"),
        ("url = \"http://127.0.0.1:1/v1\"", "url = \"ftp://x\"", "http"),
        (
            "name = \"backup\"",
            "name = \"unused\"\nurl = \"http://a\"\nkind = \"openai\"\n\n[[upstream]]\nname = \"backup\"",
            "no model has it",
        ),
    ] {
        let error = read_config(&good.replacen(from, to, 1)).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(wanted), "{to}: {error}");
    }
}

#[tokio::test]
async fn a_new_configuration_leaves_running_requests_alone() {
    let first = Provider::start(Script::new().tokens(20).pace(0, 50)).await.unwrap();
    let second = Provider::start(Script::new().tokens(20).seed(5)).await.unwrap();
    let running = start(&two(&first.url(), &second.url(), "")).await;
    let address = running.address;
    let under_way =
        tokio::spawn(async move { post(address, "/v1/chat/completions", &[], &chat("main", true)).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    running.gateway.reload(read_config(&two(&second.url(), &first.url(), "")).unwrap()).unwrap();
    let after = post(address, "/v1/chat/completions", &[], &chat("main", true)).await;
    assert!(after.is_complete());
    let before = under_way.await.unwrap();
    assert!(before.is_complete() && before.text().split_whitespace().count() == 20, "{before:?}");
    assert_eq!((first.totals().attempts, second.totals().attempts), (1, 1));
    assert!(read_config("[[model]]\nname = \"x\"\ntargets = []\n").is_err());
}

#[tokio::test]
async fn a_slow_own_node_gets_a_second_attempt_beside_it() {
    let slow = Provider::start(Script::new().tokens(8)).await.unwrap();
    let well = Provider::start(Script::new().tokens(8)).await.unwrap();
    let node = |name: &str, url: String| {
        format!("[[upstream]]\nname = \"{name}\"\nurl = \"{url}/v1\"\nkind = \"openai\"\ntier = \"own\"\n")
    };
    let config = node("slow", slow.url())
        + &node("well", well.url())
        + "[[model]]\nname = \"main\"\npolicy = \"round-robin\"\ntargets = [{ upstream = \"slow\" }, { upstream = \"well\" }]\n"
        + "[hedge]\nenabled = true\nshare = 0.5\n";
    let running = start(&config).await;
    // What is slow is known by what was usual.
    for _ in 0..80 {
        assert!(post(running.address, "/v1/chat/completions", &[], &chat("main", true)).await.is_complete());
    }
    slow.set_script(Script::new().tokens(8).pace(8_000, 0));
    for _ in 0..4 {
        let reply = post(running.address, "/v1/chat/completions", &[], &chat("main", true)).await;
        assert!(reply.is_complete() && reply.took < Duration::from_secs(4), "{reply:?}");
        assert_eq!(reply.header("x-gristmill-upstream"), Some("well"));
    }
    let text = ask(running.address, "GET", "/metrics", &[], "").await.body;
    assert!(text.contains("why=\"hedge\",result=\"ok\""), "{text}");
}
