//! Kept and shared answers.

use std::time::Duration;

use fake_provider::{Fault, Provider, Script, When};

use crate::support::{Reply, post, start, start_with};

const CHAT: &str = "/v1/chat/completions";

fn config(url: &str, more: &str) -> String {
    format!(
        r#"
[[upstream]]
name = "primary"
url = "{url}/v1"
kind = "openai"
clearance = "secret"

[[model]]
name = "main"
aliases = ["alias"]
targets = [{{ upstream = "primary", price = {{ input = "1", output = "2" }} }}]
cache = true
{more}"#
    )
}

fn body(question: &str, stream: bool, more: &str) -> String {
    format!(
        r#"{{"model":"main","temperature":0,"stream":{stream},"messages":[{{"role":"user","content":"{question}"}}]{more}}}"#
    )
}

fn state(reply: &Reply) -> Option<&str> {
    reply.header("x-gristmill-cache")
}

#[tokio::test]
async fn equal_requests_get_the_same_bytes() {
    let provider = Provider::start(Script::new()).await.unwrap();
    let running = start(&config(&provider.url(), "")).await;
    for stream in [false, true] {
        let first = post(running.address, CHAT, &[], &body("one", stream, "")).await;
        let second =
            post(running.address, CHAT, &[], &body("one", stream, r#","user":"u","metadata":{}"#)).await;
        assert_eq!((state(&first), state(&second)), (Some("miss"), Some("hit")), "{second:?}");
        assert_eq!(first.body, second.body);
        assert_eq!(second.header("x-gristmill-attempts"), Some("0"));
        assert_eq!(second.header("content-type"), first.header("content-type"));
    }
    let alias = body("one", false, "").replace("main", "alias");
    assert_eq!(state(&post(running.address, CHAT, &[], &alias).await), Some("hit"));
    assert_eq!(provider.totals().attempts, 2);
    let metrics = crate::support::ask(running.address, "GET", "/metrics", &[], "").await;
    assert!(metrics.body.contains("gristmill_gateway_cache_total{result=\"hit\"} 3"), "{}", metrics.body);
}

#[tokio::test]
async fn requests_that_differ_or_are_not_deterministic_are_answered_anew() {
    let provider = Provider::start(Script::new()).await.unwrap();
    let running = start(&config(&provider.url(), "")).await;
    let warm = |body: &str| body.replace("\"temperature\":0", "\"temperature\":0.7");
    let tool =
        r#","messages":[{"role":"user","content":"q"},{"role":"tool","tool_call_id":"a","content":"r"}]"#;
    let requests = [
        (body("one", false, ""), Some("miss")),
        (body("two", false, ""), Some("miss")),
        (body("one", false, r#","max_tokens":3"#), Some("miss")),
        (warm(&body("one", false, "")), None),
        (warm(&body("one", false, "")), None),
        (warm(&body("one", false, r#","seed":1"#)), Some("miss")),
        (warm(&body("one", false, r#","seed":2"#)), Some("miss")),
        (warm(&body("one", false, r#","seed":2"#)), Some("hit")),
        (body("one", false, r#","n":2"#), None),
        (body("one", false, r#","store":true"#), None),
        (format!(r#"{{"model":"main","temperature":0{tool}}}"#), None),
    ];
    for (request, expected) in &requests {
        let reply = post(running.address, CHAT, &[], request).await;
        assert_eq!((reply.status, state(&reply)), (200, *expected), "{request}");
    }
    assert_eq!(provider.totals().attempts, 10);
}

#[tokio::test]
async fn a_hundred_equal_requests_are_one_attempt() {
    for stream in [false, true] {
        let provider = Provider::start(Script::new().tokens(40).pace(300, 5)).await.unwrap();
        let running = start(&config(&provider.url(), "")).await;
        let asked = (0..100).map(|_| {
            let address = running.address;
            tokio::spawn(async move { post(address, CHAT, &[], &body("one", stream, "")).await })
        });
        let asked: Vec<_> = asked.collect();
        let mut states = std::collections::BTreeMap::new();
        let mut bodies = std::collections::BTreeSet::new();
        for reply in asked {
            let reply = reply.await.unwrap();
            assert_eq!(reply.text().split_whitespace().count(), 40, "{reply:?}");
            *states.entry(state(&reply).unwrap().to_owned()).or_insert(0) += 1;
            bodies.insert(reply.body);
        }
        assert_eq!(provider.totals().attempts, 1);
        assert_eq!(bodies.len(), 1);
        assert_eq!(states.get("miss"), Some(&1), "{states:?}");
    }
}

#[tokio::test]
async fn the_first_client_may_leave_while_another_waits() {
    let provider = Provider::start(Script::new().tokens(40).pace(0, 20)).await.unwrap();
    let running = start(&config(&provider.url(), "")).await;
    let address = running.address;
    let first = tokio::spawn(async move { post(address, CHAT, &[], &body("one", true, "")).await });
    while provider.totals().attempts == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let second = tokio::spawn(async move { post(address, CHAT, &[], &body("one", true, "")).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    first.abort();
    let reply = second.await.unwrap();
    assert!(reply.is_complete(), "{reply:?}");
    assert_eq!((state(&reply), provider.totals().attempts), (Some("shared"), 1));
    let third = post(running.address, CHAT, &[], &body("one", true, "")).await;
    assert_eq!((state(&third), &third.body), (Some("hit"), &reply.body));
}

#[tokio::test]
async fn work_that_nobody_waits_for_ends() {
    let provider = Provider::start(Script::new().tokens(400).pace(0, 20)).await.unwrap();
    let running = start(&config(&provider.url(), "")).await;
    for stream in [true, false] {
        let request = body("one", stream, "");
        let asked = post(running.address, CHAT, &[], &request);
        assert!(tokio::time::timeout(Duration::from_millis(300), asked).await.is_err());
    }
    for _ in 0..100 {
        if provider.totals().cancelled == 2 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{:?}", provider.totals());
}

#[tokio::test]
async fn what_is_not_whole_is_not_kept() {
    for fault in [
        Fault::Cut { after_tokens: 5, reset: false },
        Fault::ErrorEvent { after_tokens: 5 },
        Fault::status(400),
    ] {
        let name = fault.name();
        let provider = Provider::start(Script::new().fault(When::requests([1]), fault)).await.unwrap();
        let running = start(&config(&provider.url(), "on_cut = \"error\"\n[retry]\nattempts = 1\n")).await;
        let first = post(running.address, CHAT, &[], &body("one", true, "")).await;
        assert!(!first.is_complete(), "{name}: {first:?}");
        let second = post(running.address, CHAT, &[], &body("one", true, "")).await;
        assert!(second.is_complete(), "{name}: {second:?}");
        assert_eq!(state(&second), Some("miss"), "{name}");
    }
}

#[tokio::test]
async fn a_fallbacks_answer_is_not_kept() {
    let provider =
        Provider::start(Script::new().fault(When::requests([1]), Fault::status(400))).await.unwrap();
    let backup = Provider::start(Script::new()).await.unwrap();
    provider.set_script(Script::new().fault(When::always(), Fault::ContextLength));
    let more = format!(
        "fallbacks = [\"other\"]\n[[upstream]]\nname = \"backup\"\nurl = \"{}/v1\"\nkind = \"openai\"\n\
         [[model]]\nname = \"other\"\ntargets = [{{ upstream = \"backup\" }}]\n",
        backup.url()
    );
    let running = start(&config(&provider.url(), &more)).await;
    for _ in 0..2 {
        let reply = post(running.address, CHAT, &[], &body("one", false, "")).await;
        assert_eq!((reply.status, state(&reply)), (200, Some("miss")), "{reply:?}");
    }
    provider.set_script(Script::new());
    post(running.address, CHAT, &[], &body("one", false, "")).await;
    assert_eq!(state(&post(running.address, CHAT, &[], &body("one", false, "")).await), Some("hit"));
}

#[tokio::test]
async fn keys_do_not_share_answers() {
    let provider = Provider::start(Script::new()).await.unwrap();
    let more = "[[key]]\nname = \"a\"\nenv = \"A\"\n[[key]]\nname = \"b\"\nenv = \"B\"\n";
    let secrets = [("A", "gm-aaaaaaaaaaaaaaaaaaaaaaaa"), ("B", "gm-bbbbbbbbbbbbbbbbbbbbbbbb")];
    let running = start_with(&config(&provider.url(), more), &secrets).await;
    for (key, label, expected) in [
        ("gm-aaaaaaaaaaaaaaaaaaaaaaaa", "secret", "miss"),
        ("gm-bbbbbbbbbbbbbbbbbbbbbbbb", "secret", "miss"),
        ("gm-aaaaaaaaaaaaaaaaaaaaaaaa", "secret", "hit"),
        ("gm-aaaaaaaaaaaaaaaaaaaaaaaa", "public", "miss"),
    ] {
        let bearer = format!("Bearer {key}");
        let headers = [("authorization", bearer.as_str()), ("x-gristmill-label", label)];
        let reply = post(running.address, CHAT, &headers, &body("one", false, "")).await;
        assert_eq!(state(&reply), Some(expected), "{key} {label} {reply:?}");
    }
}

#[tokio::test]
async fn a_new_configuration_begins_with_an_empty_cache() {
    let provider = Provider::start(Script::new()).await.unwrap();
    let text = config(&provider.url(), "");
    let running = start(&text).await;
    post(running.address, CHAT, &[], &body("one", false, "")).await;
    running.gateway.reload(gateway::read_config(&text).unwrap()).unwrap();
    assert_eq!(state(&post(running.address, CHAT, &[], &body("one", false, "")).await), Some("miss"));
}

#[tokio::test]
async fn answers_that_are_too_large_pass_and_are_not_kept() {
    let provider = Provider::start(Script::new().tokens(20_000)).await.unwrap();
    let running = start(&config(&provider.url(), "[cache]\nbytes = 400000\n")).await;
    let address = running.address;
    for stream in [true, false] {
        let asked: Vec<_> = (0..3)
            .map(|_| tokio::spawn(async move { post(address, CHAT, &[], &body("one", stream, "")).await }))
            .collect();
        for reply in asked {
            let reply = reply.await.unwrap();
            assert_eq!(reply.text().split_whitespace().count(), 20_000, "{stream}");
        }
        let again = post(address, CHAT, &[], &body("one", stream, "")).await;
        assert_ne!(state(&again), Some("hit"));
    }
}
