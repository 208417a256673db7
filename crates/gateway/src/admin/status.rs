//! The gateway's state now, as JSON: upstreams, nodes, models, keys.

use std::collections::BTreeMap;
use std::time::Duration;

use routing::{Gate, TargetStatus};
use serde_json::{Value, json};

use super::words::{kind, tier};
use crate::config::{Budget, Window};
use crate::route::Target;
use crate::snapshot::Snapshot;
use crate::state::Shared;

/// A gate's word, and the seconds until it may change.
fn gate(gate: Gate, now: Duration) -> (&'static str, Option<f64>) {
    let left = |until: Duration| Some((until.saturating_sub(now).as_secs_f64() * 10.0).ceil() / 10.0);
    match gate {
        Gate::Closed => ("ok", None),
        Gate::ProbeDue => ("probe", None),
        Gate::Open(until) => ("failing", left(until)),
        Gate::Throttled(until) => ("throttled", left(until)),
    }
}

/// The sums of an upstream over its targets.
#[derive(Default)]
struct Sums {
    in_flight: u64,
    requests: f64,
    targets: Vec<Value>,
    /// The worst state of its targets.
    state: &'static str,
    error: f64,
}

/// How bad a state is.
fn rank(state: &str) -> usize {
    ["ok", "probe", "throttled", "failing"].iter().position(|known| *known == state).unwrap_or(0)
}

/// Requests under way at an upstream.
pub(super) fn in_flight(snapshot: &Snapshot, upstream: &str) -> u64 {
    let states = snapshot.routes.iter().flat_map(|route| route.states().1);
    let of = states.into_iter().filter(|(target, _)| target.upstream.name.as_str() == upstream);
    of.map(|(_, state)| u64::from(state.in_flight)).sum()
}

/// `GET /gateway/status`.
pub(super) fn status(shared: &Shared) -> Value {
    let snapshot = shared.snapshot.load_full();
    let mut sums: BTreeMap<String, (std::sync::Arc<Target>, Sums)> = BTreeMap::new();
    let mut models = Vec::new();
    for route in &snapshot.routes {
        let (now, states) = route.states();
        let mut names = Vec::new();
        for (target, state) in states {
            names.push(target.upstream.name.clone());
            let (_, sum) =
                sums.entry(target.upstream.name.clone()).or_insert_with(|| (target.clone(), Sums::default()));
            add(sum, route.name(), &target, &state, now);
        }
        models.push(json!({
            "name": route.name(),
            "aliases": route.model().aliases,
            "fallbacks": route.fallbacks(),
            "upstreams": names,
        }));
    }
    let upstreams: Vec<Value> =
        sums.into_iter().map(|(name, (target, sum))| upstream(shared, &name, &target, sum)).collect();
    let nodes: Vec<Value> = shared
        .admin
        .records()
        .into_iter()
        .map(|(name, (record, age))| json!({"upstream": name, "age_s": age.as_secs_f64(), "record": record}))
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "draining": shared.is_draining(),
        "uptime_s": shared.uptime().as_secs(),
        "configuration_age_s": snapshot.since.elapsed().as_secs(),
        "currency": snapshot.config.gateway.currency,
        "waiting": snapshot.routes.iter().map(|route| route.places().waiting() as u64).sum::<u64>(),
        "retries_left": shared.retries.left(),
        "upstreams": upstreams,
        "models": models,
        "nodes": nodes,
    })
}

fn add(sum: &mut Sums, model: &str, target: &Target, state: &TargetStatus, now: Duration) {
    let (word, left) = gate(state.gate, now);
    if sum.state.is_empty() || rank(word) > rank(sum.state) {
        sum.state = word;
    }
    sum.in_flight += u64::from(state.in_flight);
    sum.requests = sum.requests.max(state.requests);
    sum.error = sum.error.max(state.prediction_error);
    sum.targets.push(json!({
        "model": model,
        "name_there": target.model,
        "state": word,
        "changes_in_s": left,
        "in_flight": state.in_flight,
        "requests": state.requests,
        "prediction_error": state.prediction_error,
        "cache_trust": state.cache_trust,
    }));
}

fn upstream(shared: &Shared, name: &str, target: &Target, sum: Sums) -> Value {
    let upstream = &target.upstream;
    let address = upstream.client.address();
    json!({
        "name": name,
        "kind": kind(upstream.kind),
        "tier": tier(upstream.tier),
        "clearance": upstream.clearance.0.name(),
        "address": format!("{}:{}", address.host, address.port),
        "tls": address.tls,
        "drained": shared.admin.is_drained(name),
        "state": sum.state,
        "in_flight": sum.in_flight,
        "requests": sum.requests,
        "prediction_error": sum.error,
        "targets": sum.targets,
    })
}

/// `GET /gateway/keys`: what is known of keys, never the keys.
pub(super) fn keys(shared: &Shared) -> Value {
    let snapshot = shared.snapshot.load_full();
    let key = |key: &crate::config::Key| {
        json!({
            "name": key.name,
            "team": key.team,
            "class": key.class.name(),
            "label": key.label.unwrap_or_default().name(),
            "models": key.models,
            "admin": key.admin,
            "requests_per_minute": key.requests_per_minute,
            "tokens_per_minute": key.tokens_per_minute,
            "concurrent": key.concurrent,
            "budgets": key.budgets.iter().map(budget).collect::<Vec<_>>(),
        })
    };
    let teams = snapshot.config.teams.iter().map(
        |team| json!({"name": team.name, "budgets": team.budgets.iter().map(budget).collect::<Vec<_>>()}),
    );
    json!({
        "keys": snapshot.config.keys.iter().map(key).collect::<Vec<_>>(),
        "teams": teams.collect::<Vec<_>>(),
    })
}

fn budget(budget: &Budget) -> Value {
    let window = match budget.window {
        Window::Day => "day",
        Window::Month => "month",
        Window::Total => "total",
    };
    let money = budget.money.map(|money| ledger::Amount::from_nano(money.0).to_string());
    json!({"window": window, "money": money, "tokens": budget.tokens, "requests": budget.requests})
}
