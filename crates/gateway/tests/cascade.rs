//! A small model first, a larger one where it wavers.

use std::time::Duration;

use fake_provider::{Fault, Provider, Reply as Says, Script, When, answer_words};
use serde_json::{Value, json};

use crate::support::{Running, post, start};

const CHAT: &str = "/v1/chat/completions";
const QUESTION: &str = "Which of these?";

struct Both {
    small: Provider,
    large: Provider,
    running: Running,
}

/// Small and larger model; the larger one's words are others.
async fn both(small: Script, cascade: &str, more: &str) -> Both {
    let small = Provider::start(small.tokens(60)).await.unwrap();
    let large = Provider::start(Script::new().seed(2).tokens(60)).await.unwrap();
    let config = format!(
        r#"
[[upstream]]
name = "near"
url = "{}/v1"
kind = "openai"
clearance = "secret"
timeouts = {{ first_byte = "1s", idle = "1s" }}

[[upstream]]
name = "far"
url = "{}/v1"
kind = "openai"

[[model]]
name = "small"
targets = [{{ upstream = "near" }}]
cascade = {{ larger = "large", {cascade} }}

[[model]]
name = "large"
targets = [{{ upstream = "far" }}]
{more}"#,
        small.url(),
        large.url()
    );
    let running = start(&config).await;
    Both { small, large, running }
}

fn body(stream: bool, more: Value) -> String {
    let mut body =
        json!({"model": "small", "stream": stream, "messages": [{"role": "user", "content": QUESTION}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body.to_string()
}

fn words(seed: u64) -> String {
    answer_words(seed, QUESTION, 60).concat()
}

/// Sure for twelve tokens, then not.
fn wavers() -> Script {
    let mut margins = vec![5.0; 12];
    margins.push(0.1);
    Script::new().margins(&margins).pace(0, 10)
}

#[tokio::test]
async fn a_sure_answer_is_the_small_models_own() {
    let plain = Provider::start(Script::new().tokens(60)).await.unwrap();
    for cascade in ["margin = 1.0", "margin = 1.0, hold = \"whole\""] {
        let both = both(Script::new().margins(&[3.0]), cascade, "").await;
        for stream in [false, true] {
            let reply = post(both.running.address, CHAT, &[], &body(stream, json!({}))).await;
            assert_eq!((reply.status, reply.text()), (200, words(1)), "{reply:?}");
            assert_eq!(reply.header("x-gristmill-upstream"), Some("near"));
            assert!(!reply.body.contains("top_logprobs"), "asked for by the gateway alone: {}", reply.body);
            assert!(!stream || reply.is_complete() && !reply.body.contains("\"usage\":{"), "{}", reply.body);
            let sent: Value = serde_json::from_str(&both.small.log().last().unwrap().body).unwrap();
            assert_eq!((&sent["logprobs"], &sent["top_logprobs"]), (&json!(true), &json!(2)));
        }
        assert_eq!((both.small.totals().attempts, both.large.totals().attempts), (2, 0));
    }
    // Put together from a stream, the answer is as one that came whole.
    let both = both(Script::new().margins(&[3.0]), "margin = 1.0", "").await;
    let mut made = post(both.running.address, CHAT, &[], &body(false, json!({}))).await.json();
    let address = plain.addr();
    let mut whole = post(address, CHAT, &[], &body(false, json!({}))).await.json();
    for answer in [&mut made, &mut whole] {
        answer["id"] = Value::Null;
        answer["created"] = Value::Null;
        answer["choices"][0]["message"].as_object_mut().unwrap().remove("refusal");
    }
    assert_eq!(made, whole);
}

#[tokio::test]
async fn an_answer_that_wavers_is_given_up_at_once() {
    for (stream, hold) in [(false, ""), (true, ", hold = \"whole\"")] {
        let both = both(wavers(), &format!("margin = 1.0, window = 4{hold}"), "").await;
        let reply = post(both.running.address, CHAT, &[], &body(stream, json!({}))).await;
        assert_eq!((reply.status, reply.text()), (200, words(2)), "{reply:?}");
        assert_eq!(reply.header("x-gristmill-upstream"), Some("far"));
        assert_eq!(reply.header("x-gristmill-attempts"), Some("2"));
        let small = both.small.settled(Duration::from_secs(5)).await;
        assert_eq!((small.attempts, small.cancelled), (1, 1), "{small:?}");
        assert!(small.usage.output < 40, "given up after the window, not at the end: {small:?}");
        let metrics = crate::support::ask(both.running.address, "GET", "/metrics", &[], "").await.body;
        assert!(metrics.contains("why=\"cascade\",result=\"ok\"} 1"), "{metrics}");
        assert!(metrics.contains("why=\"first\",result=\"unsure\"} 1"), "{metrics}");
    }
}

#[tokio::test]
async fn after_the_first_window_a_stream_stays() {
    let both = both(wavers(), "margin = 1.0, window = 4", "").await;
    let reply = post(both.running.address, CHAT, &[], &body(true, json!({}))).await;
    assert_eq!((reply.text(), both.large.totals().attempts), (words(1), 0), "{reply:?}");
    let unsure = Script::new().margins(&[0.1]).pace(0, 10);
    both.small.set_script(unsure.tokens(60));
    let reply = post(both.running.address, CHAT, &[], &body(true, json!({}))).await;
    assert_eq!((reply.text(), both.large.totals().attempts), (words(2), 1), "{reply:?}");
    assert!(!reply.body.contains("top_logprobs"));
}

#[tokio::test]
async fn other_dialects_are_judged_too() {
    let both = both(wavers(), "margin = 1.0, window = 4", "").await;
    let request =
        json!({"model": "small", "max_tokens": 100, "messages": [{"role": "user", "content": QUESTION}]});
    let reply = post(both.running.address, "/v1/messages", &[], &request.to_string()).await;
    assert_eq!(reply.json()["content"][0]["text"], json!(words(2)), "{reply:?}");
    both.small.set_script(Script::new().margins(&[3.0]).tokens(60));
    let reply = post(both.running.address, "/v1/messages", &[], &request.to_string()).await;
    assert_eq!(reply.json()["content"][0]["text"], json!(words(1)), "{reply:?}");
}

#[tokio::test]
async fn what_cannot_be_judged_is_answered_by_the_small_model() {
    let both = both(wavers(), "margin = 1.0, window = 4", "").await;
    let tool = json!({"messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": null,
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "7"}]});
    for more in [tool, json!({"n": 2}), json!({"logprobs": true, "top_logprobs": 5}), json!({"store": true})]
    {
        let reply = post(both.running.address, CHAT, &[], &body(false, more.clone())).await;
        assert_eq!(reply.header("x-gristmill-upstream"), Some("near"), "{more} {reply:?}");
    }
    // Nor where the label does not let the larger one have it.
    let secret = [("x-gristmill-label", "secret")];
    let reply = post(both.running.address, CHAT, &secret, &body(false, json!({}))).await;
    assert_eq!((reply.header("x-gristmill-upstream"), reply.text()), (Some("near"), words(1)));
    // Nor where the upstream sends no log-probabilities.
    both.small.set_script(Script::new().tokens(60));
    for stream in [true, false] {
        let reply = post(both.running.address, CHAT, &[], &body(stream, json!({}))).await;
        assert_eq!(reply.text(), words(1), "{reply:?}");
    }
    assert_eq!(both.large.totals().attempts, 0);
}

#[tokio::test]
async fn a_call_that_has_begun_is_seen_through() {
    let says = Says::Tool { name: "f".to_owned(), arguments: "{\"a\": 1, \"b\": 2, \"c\": 3}".to_owned() };
    let both = both(Script::new().margins(&[0.1]).reply(says), "margin = 1.0, window = 2", "").await;
    let tools = json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]});
    let reply = post(both.running.address, CHAT, &[], &body(false, tools)).await;
    let call = &reply.json()["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!(call["arguments"], json!("{\"a\": 1, \"b\": 2, \"c\": 3}"), "{reply:?}");
    assert_eq!(both.large.totals().attempts, 0);
}

#[tokio::test]
async fn rules_send_requests_to_the_larger_model_at_once() {
    let rules = "when = \"rules\", prompt_tokens = 100, tools = true";
    let both = both(Script::new(), rules, "").await;
    let tools = json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]});
    let long = json!({"messages": [{"role": "user", "content": "word ".repeat(200)}]});
    for (more, upstream) in [(json!({}), "near"), (tools, "far"), (long, "far")] {
        let reply = post(both.running.address, CHAT, &[], &body(false, more)).await;
        assert_eq!(reply.header("x-gristmill-upstream"), Some(upstream), "{reply:?}");
    }
    assert_eq!((both.small.totals().attempts, both.large.totals().attempts), (1, 2));
}

#[tokio::test]
async fn where_the_larger_model_fails_the_small_one_answers() {
    let both = both(wavers(), "margin = 1.0, window = 4", "[retry]\nattempts = 1\n").await;
    both.large.set_script(Script::new().fault(When::always(), Fault::status(503)));
    let reply = post(both.running.address, CHAT, &[], &body(false, json!({}))).await;
    assert_eq!((reply.status, reply.text()), (200, words(1)), "{reply:?}");
}

#[tokio::test]
async fn where_the_small_model_fails_the_larger_one_answers() {
    for fault in
        [Fault::status(500), Fault::Cut { after_tokens: 10, reset: false }, Fault::Stall { after_tokens: 3 }]
    {
        let script = Script::new().margins(&[3.0]).fault(When::always(), fault);
        let both = both(script, "margin = 1.0, hold = \"whole\"", "").await;
        for stream in [true, false] {
            let reply = post(both.running.address, CHAT, &[], &body(stream, json!({}))).await;
            assert_eq!((reply.status, reply.text()), (200, words(2)), "{reply:?}");
        }
    }
}

#[tokio::test]
async fn pairs_are_written_to_calibrate() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pairs.jsonl");
    let cascade = format!("margin = 1.0, both = 1.0, pairs = {path:?}");
    let both = both(Script::new().margins(&[3.0]), &cascade, "").await;
    let reply = post(both.running.address, CHAT, &[], &body(true, json!({}))).await;
    assert_eq!(reply.text(), words(1), "{reply:?}");
    let mut text = String::new();
    for _ in 0..200 {
        text = std::fs::read_to_string(&path).unwrap_or_default();
        if text.ends_with('\n') {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let pairs = gateway::calibrate::Calibration::read(&text).unwrap();
    assert_eq!(pairs.len(), 1, "{text}");
    assert!((pairs[0].margin - 3.0).abs() < 1e-9 && !pairs[0].agrees && pairs[0].tokens == 60, "{text}");
    assert_eq!(both.large.totals().attempts, 1);
}
