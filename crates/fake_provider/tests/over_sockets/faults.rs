//! Each fault is what its name says, on the wire.

use crate::client::{CHAT, End, Got, chat, open, post, read};
use fake_provider::{Fault, Outcome, Provider, Script, When};
use serde_json::json;
use std::time::Duration;

/// The answer of a provider that plays a fault, and its outcome on the books.
async fn played(fault: Fault, stream: bool) -> (Got, Outcome) {
    let script = Script::new().tokens(6).fault(When::always(), fault);
    let provider = Provider::start(script).await.unwrap();
    let mut connection = open(provider.addr(), "POST", CHAT, "", &chat("hi", stream).to_string()).await;
    let got = read(&mut connection, Duration::from_millis(300)).await;
    drop(connection);
    provider.settled(Duration::from_secs(20)).await;
    let outcome = provider.log()[0].outcome;
    (got, outcome)
}

/// The pieces of text of a stream.
fn pieces(got: &Got) -> usize {
    let events = got.events();
    let texts = events.iter().filter_map(|event| event.pointer("/choices/0/delta/content")?.as_str());
    texts.filter(|text| !text.is_empty()).count()
}

#[tokio::test]
async fn refusals_have_status_and_body() {
    for (fault, status, code) in [
        (Fault::rate_limited("7"), 429, json!("rate_limit_exceeded")),
        (Fault::status(500), 500, json!(null)),
        (Fault::status(503), 503, json!(null)),
        (Fault::status(529), 529, json!(null)),
        (Fault::status(402), 402, json!("insufficient_quota")),
        (Fault::ContextLength, 400, json!("context_length_exceeded")),
        (Fault::ContentFilter, 400, json!("content_filter")),
    ] {
        let (got, outcome) = played(fault.clone(), false).await;
        assert_eq!((got.status(), outcome), (status, Outcome::Failed), "{fault:?}");
        assert_eq!(got.json()["error"]["code"], code, "{fault:?}");
        assert_eq!(got.head.contains("retry-after: 7"), status == 429, "{}", got.head);
    }
    let (got, _) = played(Fault::RateLimited { retry_after: None }, true).await;
    assert!(got.status() == 429 && !got.head.contains("retry-after"));
    let (got, _) = played(Fault::HtmlError { status: 502 }, true).await;
    assert!(got.status() == 502 && got.head.contains("text/html") && got.body.starts_with("<html>"));
}

#[tokio::test]
async fn anthropic_and_gemini_errors_are_theirs() {
    let provider = Provider::start(Script::new().fault(When::always(), Fault::status(529))).await.unwrap();
    let body = json!({"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]});
    let got = post(provider.addr(), "/v1/messages", &body).await;
    assert_eq!(got.json()["error"]["type"], "overloaded_error");
    let body = json!({"contents": [{"parts": [{"text": "hi"}]}]});
    let got = post(provider.addr(), "/v1beta/models/m:generateContent", &body).await;
    assert_eq!(got.json()["error"]["status"], "UNAVAILABLE");
}

#[tokio::test]
async fn connections_end_as_scripted() {
    let (got, outcome) = played(Fault::Reset, false).await;
    assert_eq!((got.head.as_str(), got.end, outcome), ("", End::Reset, Outcome::Failed));
    let (got, outcome) = played(Fault::NoResponse, true).await;
    assert_eq!((got.head.as_str(), got.end, outcome), ("", End::Open, Outcome::Cancelled));
    let cut = |reset| Fault::Cut { after_tokens: 2, reset };
    let (got, outcome) = played(cut(false), true).await;
    assert_eq!((pieces(&got), got.whole, got.end, outcome), (2, false, End::Closed, Outcome::Failed));
    let (got, _) = played(cut(true), true).await;
    assert_eq!((pieces(&got), got.whole, got.end), (2, false, End::Reset));
    let (got, _) = played(cut(false), false).await;
    assert!(!got.whole && !got.body.is_empty() && got.end == End::Closed, "{}", got.body);
    for stream in [true, false] {
        let (got, outcome) = played(Fault::Stall { after_tokens: 2 }, stream).await;
        assert!(!got.body.is_empty() && !got.whole, "{}", got.body);
        assert_eq!((got.end, outcome), (End::Open, Outcome::Cancelled));
    }
}

#[tokio::test]
async fn streams_go_wrong_as_scripted() {
    let (got, outcome) = played(Fault::MalformedEvent { after_tokens: 2 }, true).await;
    assert_eq!((pieces(&got), got.whole, outcome), (6, true, Outcome::Completed));
    let data = got.body.lines().filter(|line| line.starts_with("data: {")).count();
    assert_eq!(data, got.events().len() + 1, "one of them does not parse");
    let (got, _) = played(Fault::MalformedEvent { after_tokens: 2 }, false).await;
    assert!(got.whole && serde_json::from_str::<serde_json::Value>(&got.body).is_err());
    let (got, outcome) = played(Fault::NoDone, true).await;
    assert_eq!((pieces(&got), got.whole, outcome), (6, true, Outcome::Failed));
    assert!(!got.body.contains("[DONE]"));
    let (got, _) = played(Fault::ErrorEvent { after_tokens: 3 }, true).await;
    assert_eq!(pieces(&got), 3);
    assert_eq!(got.events().last().unwrap()["error"]["type"], "server_error");
    let (got, _) = played(Fault::Filtered { after_tokens: 3 }, true).await;
    assert_eq!(pieces(&got), 3);
    assert!(got.body.contains(r#""finish_reason":"content_filter""#));
    let (got, _) = played(Fault::WrongContentType, true).await;
    assert!(got.head.contains("text/html") && pieces(&got) == 6);
    let (got, _) = played(Fault::NoUsage, false).await;
    assert!(got.json().get("usage").is_none());
    let (got, _) = played(Fault::EmptyBody, false).await;
    assert!(got.status() == 200 && got.body.is_empty() && got.whole);
    let (got, _) = played(Fault::SlowBytes { gap_ms: 1 }, false).await;
    assert!(got.whole && got.json()["usage"]["completion_tokens"] == 6);
}

#[tokio::test]
async fn an_endless_line_has_the_length_that_was_asked_for() {
    for (stream, before) in [(true, "data: "), (false, "{\"id\":\"")] {
        let (got, _) = played(Fault::EndlessLine { bytes: 3 << 20 }, stream).await;
        let line = got.body.lines().last().unwrap();
        assert!(line.starts_with(before) && line.len() == (3 << 20) + before.len(), "{}", line.len());
        assert!(!got.whole);
    }
}

#[tokio::test]
async fn faults_hit_the_requests_that_they_name() {
    let script = Script::new()
        .fault(When::requests([1]), Fault::status(500))
        .fault(When::between(3, 4), Fault::status(503))
        .fault(When::model("x"), Fault::status(402))
        .fault(When { body_has: Some("poison".to_owned()), ..When::always() }, Fault::ContentFilter);
    let provider = Provider::start(script).await.unwrap();
    let mut status = Vec::new();
    for text in ["a", "a", "a", "a", "a", "poison"] {
        status.push(post(provider.addr(), CHAT, &chat(text, false)).await.status());
    }
    let mut other = chat("a", false);
    other["model"] = json!("x");
    status.push(post(provider.addr(), CHAT, &other).await.status());
    assert_eq!(status, [500, 200, 503, 503, 200, 400, 402]);
}
