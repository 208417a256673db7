//! Several models behind one server: whatever is told of one of them is told under its name, and goes on when it is
//! loaded again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use server::{Currency, Price};

use crate::frame::Running;
use crate::many_models::{Fake, ask, server_with, until};
use crate::operations::Kept;

/// Series by name and labels, as they are written.
type Samples = BTreeMap<String, f64>;

/// What `/metrics` says: each family with one HELP and one TYPE before its samples, no series twice.
fn scrape(server: &Running) -> Samples {
    let answer = server.get("/metrics");
    assert_eq!(answer.status, 200);
    let (mut samples, mut families) = (Samples::new(), Vec::new());
    for line in answer.body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let family = rest.split(' ').next().unwrap().to_owned();
            assert!(!families.contains(&family), "{family} twice");
            families.push(family);
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(series.starts_with(families.last().unwrap()), "{line}");
            assert!(samples.insert(series.to_owned(), value.parse().unwrap()).is_none(), "twice: {line}");
        }
    }
    samples
}

/// The series of one model.
fn of(samples: &Samples, model: &str) -> Samples {
    let label = format!("model_name=\"{model}\"");
    samples.iter().filter(|(series, _)| series.contains(&label)).map(|(s, v)| (s.clone(), *v)).collect()
}

/// The series of a model with this name, and another label if there is more than one.
fn value(samples: &Samples, name: &str, model: &str, label: &str) -> f64 {
    let of = of(samples, model);
    let is = |series: &str| series.starts_with(&format!("{name}{{")) && series.contains(label);
    let found: Vec<f64> = of.iter().filter(|(series, _)| is(series)).map(|(_, value)| *value).collect();
    assert_eq!(found.len(), 1, "{name} of {model} with {label}: {of:?}");
    found[0]
}

fn is_counter(series: &str) -> bool {
    let name = series.split('{').next().unwrap();
    ["_total", "_count", "_sum", "_bucket"].iter().any(|end| name.ends_with(end))
}

/// Asserts that no counter fell or went away.
fn grows(before: &Samples, after: &Samples) {
    for (series, before) in before.iter().filter(|(series, _)| is_counter(series)) {
        let after = after.get(series).unwrap_or_else(|| panic!("{series} went away"));
        assert!(after >= before, "{series} fell from {before} to {after}");
    }
}

/// A dollar a second.
fn priced() -> service::Options {
    let price = Price { per_hour: 3600.0, currency: Currency::new("USD").unwrap(), in_usage: true };
    service::Options { price: Some(price), ..service::Options::default() }
}

#[test]
fn what_one_model_does_is_told_of_it_alone() {
    let server = server_with(priced(), &["a", "b"].map(Fake::new), &[], None);
    let kept = Arc::new(Kept::default());
    server.server.audit(kept.clone());
    let ask = |model: &str, extra: Value| {
        let mut body = json!({"model": model, "prompt": "hello", "max_tokens": 8, "ignore_eos": true});
        crate::frame::merge(&mut body, extra);
        server.post("/v1/completions", &body)
    };
    let mut cost = 0.0;
    for extra in [json!({}), json!({"n": 2}), json!({"prompt": ["x", "y"]})] {
        let answer = ask("b", extra).json();
        assert_eq!(answer["model"], "b");
        cost += answer["usage"]["cost"]["total"].as_f64().unwrap();
    }
    let records = kept.until(3);
    assert!(records.iter().all(|record| record.model.as_deref() == Some("b")), "{records:?}");
    until("the engine's rest", || value(&scrape(&server), "vllm:num_requests_running", "b", "") == 0.0);
    let first = scrape(&server);
    for (series, value) in of(&first, "a") {
        let is_state = series.starts_with("gristmill_model_state") && series.contains("registered");
        assert!(series.starts_with("gristmill_model_") && value == f64::from(is_state), "{series} {value}");
    }
    assert_eq!(value(&first, "vllm:generation_tokens_total", "b", ""), 40.0);
    assert_eq!(value(&first, "vllm:request_success_total", "b", "length"), 5.0);
    assert_eq!(value(&first, "vllm:time_to_first_token_seconds_count", "b", ""), 5.0);
    assert_eq!(value(&first, "vllm:inter_token_latency_seconds_count", "b", ""), 35.0);
    assert!(value(&first, "vllm:prefix_cache_queries_total", "b", "") > 0.0);
    assert!(value(&first, "gristmill_step_seconds_count", "b", "") > 0.0);
    let turns = value(&first, "gristmill_device_turn_wait_seconds_count", "b", "");
    assert!(turns > 8.0 && value(&first, "gristmill_device_compute_seconds_total", "b", "") > 0.0);
    let spent = |samples: &Samples, model: &str| {
        ["prompt", "output"].map(|kind| value(samples, "gristmill_model_cost_total", model, kind))
    };
    assert!((spent(&first, "b").iter().sum::<f64>() - cost).abs() < 1e-6, "{cost} {:?}", spent(&first, "b"));

    // Whatever the other one does changes nothing of it.
    assert_eq!(ask("a", json!({})).status, 200);
    assert_eq!(kept.until(1)[0].model.as_deref(), Some("a"));
    assert_eq!(ask("nobody", json!({})).status, 404);
    assert_eq!(kept.until(1)[0].model, None);
    until("the engine's rest", || value(&scrape(&server), "vllm:num_requests_running", "a", "") == 0.0);
    let second = scrape(&server);
    assert_eq!(of(&second, "b"), of(&first, "b"));
    assert_eq!(value(&second, "vllm:generation_tokens_total", "a", ""), 8.0);
    assert!(!second.keys().any(|series| series.contains("nobody")));
    for (at, kind) in ["prompt", "output"].into_iter().enumerate() {
        let all = second[&format!("gristmill_cost_total{{currency=\"USD\",kind=\"{kind}\"}}")];
        assert!((all - spent(&second, "a")[at] - spent(&second, "b")[at]).abs() < 1e-6, "{kind}: {all}");
    }
}

#[test]
fn a_model_that_is_loaded_again_goes_on_counting() {
    let models = ["a", "b", "c"].map(Fake::new);
    let server = server_with(priced(), &models, &[], None);
    let loads =
        |samples: &Samples, model: &str| value(samples, "gristmill_model_loads_total", model, "success");
    ask(&server, "b", "hello");
    let loaded = scrape(&server);
    assert_eq!(value(&loaded, "gristmill_model_memory_reserved_bytes", "b", ""), 40.0);
    assert_eq!(
        (loaded["gristmill_memory_budget_bytes"], loaded["gristmill_memory_reserved_bytes"]),
        (100.0, 40.0)
    );
    assert_eq!(value(&loaded, "gristmill_model_load_wait_seconds_count", "b", ""), 1.0);
    assert!(value(&loaded, "gristmill_model_load_duration_seconds_sum", "b", "") >= 0.003);
    until("the unload", || {
        server.post("/v1/models/b/unload", &json!({}));
        value(&scrape(&server), "gristmill_model_state", "b", "registered") == 1.0
    });
    let unloaded = scrape(&server);
    grows(&loaded, &unloaded);
    assert_eq!(value(&unloaded, "gristmill_model_unloads_total", "b", "request"), 1.0);
    for gauge in ["vllm:kv_cache_usage_perc", "gristmill_kv_cache_kept_perc", "vllm:num_requests_running"] {
        assert_eq!(value(&unloaded, gauge, "b", ""), 0.0, "{gauge}");
    }
    assert_eq!(unloaded["gristmill_memory_reserved_bytes"], 0.0);

    ask(&server, "b", "hello");
    until("the answer's end", || value(&scrape(&server), "vllm:num_requests_running", "b", "") == 0.0);
    let again = scrape(&server);
    grows(&unloaded, &again);
    assert_eq!(loads(&again, "b"), 2.0);
    for counter in ["vllm:generation_tokens_total", "vllm:prefix_cache_queries_total"] {
        let once = value(&loaded, counter, "b", "");
        assert!(once > 0.0 && value(&again, counter, "b", "") == 2.0 * once, "{counter} {once}");
    }

    // For the third one, the one that is worth least goes: "b" has had two requests.
    (0..9).for_each(|_| drop(ask(&server, "a", "x")));
    ask(&server, "c", "x");
    let crowded = scrape(&server);
    grows(&again, &crowded);
    assert_eq!(value(&crowded, "gristmill_model_unloads_total", "b", "memory"), 1.0);
    // A load that fails is counted, and the request's wait for it.
    models[1].fails.store(true, Ordering::Relaxed);
    assert_eq!(server.post("/v1/completions", &json!({"model": "b", "prompt": "x"})).status, 503);
    let failed = scrape(&server);
    grows(&crowded, &failed);
    assert_eq!(value(&failed, "gristmill_model_loads_total", "b", "failure"), 1.0);
    assert_eq!(value(&failed, "gristmill_model_load_wait_seconds_count", "b", ""), 3.0);
    assert_eq!(value(&failed, "gristmill_model_state", "b", "failed"), 1.0);
    assert_eq!(value(&failed, "gristmill_model_memory_reserved_bytes", "b", ""), 0.0);
    assert_eq!(loads(&failed, "b"), 2.0);
}

#[test]
fn an_idle_model_is_unloaded_for_its_keep_alive() {
    let models = ["a", "b"].map(Fake::new);
    let server = server_with(service::Options::default(), &models, &["a"], Some(Duration::from_millis(1)));
    ask(&server, "a", "hello");
    ask(&server, "b", "hello");
    until("the unload", || {
        value(&scrape(&server), "gristmill_model_unloads_total", "b", "keep_alive") == 1.0
    });
    let text = scrape(&server);
    assert_eq!(value(&text, "gristmill_model_state", "a", "ready"), 1.0, "it is pinned");
    assert!(!text.keys().any(|series| series.starts_with("gristmill_model_cost")), "nothing has a price");
}

#[test]
fn counters_only_grow_while_models_come_and_go() {
    let server = server_with(priced(), &["a", "b", "c"].map(Fake::new), &[], None);
    std::thread::scope(|scope| {
        let asks = [0, 1, 2].map(|thread| {
            let server = &server;
            scope.spawn(move || {
                (0..15).for_each(|round| drop(ask(server, ["a", "b", "c"][(thread + round) % 3], "hello")));
            })
        });
        let mut before = scrape(&server);
        while asks.iter().any(|ask| !ask.is_finished()) {
            let now = scrape(&server);
            grows(&before, &now);
            before = now;
        }
    });
    let end = scrape(&server);
    for model in ["a", "b", "c"] {
        assert_eq!(value(&end, "vllm:generation_tokens_total", model, ""), 15.0 * 8.0, "{model}");
        assert_eq!(value(&end, "vllm:request_prompt_tokens_count", model, ""), 15.0, "{model}");
    }
}
