//! What `/metrics` tells on request only.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::frame;

use std::time::{Duration, Instant};

use events::Process;
use frame::{options, ready};
use serde_json::{Value, json};
use server::{Currency, Options, Price};

#[test]
fn the_process_is_asked_at_each_scrape() {
    let server = ready(options(), Duration::ZERO);
    assert!(!server.get("/metrics").body.contains("process_"));
    let asked = std::sync::atomic::AtomicU64::new(0);
    server.server.measure(move || {
        let files = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        Process { open_files: Some(files), ..Process::default() }
    });
    // The first one stays.
    server.server.measure(Process::default);
    assert!(server.get("/metrics").body.contains("process_open_fds 1.0\n"));
    assert!(server.get("/metrics").body.contains("process_open_fds 2.0\n"));
}

#[test]
fn llama_servers_names_follow_the_requests() {
    let server = ready(Options { metrics_llamacpp: true, ..options() }, Duration::ZERO);
    assert_eq!(server.chat(json!({"max_tokens": 5, "ignore_eos": true})).status, 200);
    server.until("nothing running", |stats| stats.running == 0);
    let text = server.get("/metrics").body;
    assert!(text.contains("\nllamacpp:tokens_predicted_total 5\n"), "{text}");
    assert!(text.contains("\nllamacpp:requests_processing 0\n"), "{text}");
    assert!(!ready(options(), Duration::ZERO).get("/metrics").body.contains("llamacpp:"));
}

/// A model whose every step takes some time, at 3600 dollars an hour: a dollar a second.
fn priced(in_usage: bool) -> frame::Running {
    let price = Price { per_hour: 3600.0, currency: Currency::new("USD").unwrap(), in_usage };
    ready(
        Options {
            service: service::Options { price: Some(price), ..service::Options::default() },
            ..options()
        },
        Duration::from_millis(2),
    )
}

/// The values of a metric by its label `kind`: prompt, output, idle.
fn by_kind(text: &str, name: &str) -> [f64; 3] {
    ["prompt", "output", "idle"].map(|kind| {
        let line = text.lines().find(|l| l.starts_with(name) && l.contains(&format!("kind=\"{kind}\"")));
        line.unwrap_or_else(|| panic!("no {kind} of {name}:\n{text}"))
            .rsplit(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    })
}

#[test]
fn what_requests_cost_and_what_idled_is_what_the_time_cost() {
    let began = Instant::now();
    let server = priced(true);
    let up = began.elapsed();
    let asked = json!({"max_tokens": 6, "ignore_eos": true});
    let (mut prompts, mut answers) = (0.0, 0.0);
    let text = "user hello";
    let spoken = |usage: &Value| {
        let cost = &usage["cost"];
        assert_eq!((&cost["currency"], &cost["price_per_hour"]), (&json!("USD"), &json!(3600.0)), "{usage}");
        let amount = |name: &str| cost[name].as_f64().unwrap();
        assert!((amount("total") - amount("machine_seconds")).abs() < 1e-8, "{usage}");
        assert!((amount("total") - amount("prompt") - amount("completion")).abs() < 1e-8, "{usage}");
        [amount("prompt"), amount("completion")]
    };
    let mut streamed = asked.clone();
    frame::merge(&mut streamed, json!({"stream": true, "stream_options": {"include_usage": true}}));
    let events = server.chat(streamed).events();
    let several = json!({"prompt": text, "n": 3, "max_tokens": 6, "ignore_eos": true});
    let message =
        json!({"messages": [{"role": "user", "content": "hello"}], "max_tokens": 6, "temperature": 0});
    let response = json!({"input": "hello", "max_output_tokens": 6, "temperature": 0});
    for usage in [
        &server.chat(asked).json()["usage"],
        &events[events.len() - 1]["usage"],
        &server.post("/v1/completions", &several).json()["usage"],
        &server.post("/v1/messages", &message).json()["usage"],
        &server.post("/v1/responses", &response).json()["usage"],
    ] {
        let [prompt, answer] = spoken(usage);
        assert!(prompt > 0.001 && answer > 0.001, "each takes a step of 2 ms at least: {usage}");
        prompts += prompt;
        answers += answer;
    }
    server.until("nothing running", |stats| stats.running == 0);
    let before = began.elapsed();
    let text = server.get("/metrics").body;
    let after = began.elapsed();
    assert!(text.contains("gristmill_cost_price_per_hour{currency=\"USD\"} 3600.0\n"), "{text}");
    let (seconds, cost) =
        (by_kind(&text, "gristmill_machine_seconds_total"), by_kind(&text, "gristmill_cost_total"));
    for (seconds, cost) in seconds.iter().zip(cost) {
        assert!((seconds - cost).abs() < 1e-9, "a dollar a second: {text}");
    }
    assert!(
        (cost[0] - prompts).abs() < 1e-6 && (cost[1] - answers).abs() < 1e-6,
        "{cost:?} {prompts} {answers}"
    );
    let sum: f64 = cost.iter().sum();
    // It came up before `up`, and was asked between `before` and `after`.
    let (least, most) = ((before - up).as_secs_f64(), after.as_secs_f64());
    assert!((least..=most).contains(&sum), "{sum}, of {least} to {most} s");
    // What nobody uses is idle.
    std::thread::sleep(Duration::from_millis(30));
    let later = by_kind(&server.get("/metrics").body, "gristmill_cost_total");
    assert!(later[2] >= cost[2] + 0.03 && later[..2] == cost[..2], "{later:?} after {cost:?}");
}

#[test]
fn a_cost_is_told_only_where_it_is_asked_for_and_known() {
    let server = priced(false);
    assert!(server.chat(json!({})).json()["usage"].get("cost").is_none());
    assert!(
        server.chat(json!({"include_cost": true})).json()["usage"]["cost"]["total"].as_f64().unwrap() > 0.0
    );
    let unpriced = ready(options(), Duration::ZERO);
    let refused = unpriced.chat(json!({"include_cost": true}));
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("include_cost")));
    let text = unpriced.get("/metrics").body;
    assert!(!text.contains("gristmill_cost") && text.contains("gristmill_machine_seconds_total"), "{text}");
}
