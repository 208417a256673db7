//! The sections beside `model_list`: `router_settings`, `litellm_settings` and `general_settings`.

use serde_json::{Map, Value};

use super::output::Output;
use super::values::{Defaults, Remarks, seconds, text, variable};

/// Most retries that the gateway makes.
const MOST_ATTEMPTS: u64 = 8;
/// Settings that another function of the import reads.
const ELSEWHERE: [&str; 5] = [
    "fallbacks",
    "default_fallbacks",
    "context_window_fallbacks",
    "content_policy_fallbacks",
    "model_group_alias",
];

/// Reads the settings of routing and of answers.
pub(super) fn read(
    router: Option<&Map<String, Value>>,
    general: Option<&Map<String, Value>>,
    output: &mut Output,
    remarks: &mut Remarks,
) -> Defaults {
    let mut defaults = Defaults::default();
    output.policy = "weighted";
    for (place, table) in [("litellm_settings", general), ("router_settings", router)] {
        let Some(table) = table else { continue };
        for (name, value) in table {
            match name.as_str() {
                "routing_strategy" => output.policy = strategy(value, remarks),
                "num_retries" => retries(place, value, output, remarks),
                "timeout" | "request_timeout" => defaults.total_ms = seconds(value).or(defaults.total_ms),
                "stream_timeout" => defaults.first_byte_ms = seconds(value).or(defaults.first_byte_ms),
                "allowed_fails" | "cooldown_time" | "allowed_fails_policy" | "disable_cooldowns" => {
                    remarks.add(format!(
                        "{place}.{name} is not carried over: circuit breakers open at five failures in ten seconds if \
                         these are the half, for one to sixty seconds, and at 429 until Retry-After"
                    ));
                }
                "cache" if value == &Value::Bool(true) => {
                    output.cache = true;
                    remarks.add(format!(
                        "{place}.cache: answers to deterministic requests are kept (temperature 0 or a seed), in this \
                         process"
                    ));
                }
                "cache" => {}
                "cache_params" => cache_params(place, value, output, remarks),
                name if ELSEWHERE.contains(&name) => {}
                "drop_params" | "modify_params" => remarks.add(format!(
                    "{place}.{name} is not carried over: what an upstream's API cannot say is refused by name"
                )),
                "redis_host" | "redis_port" | "redis_password" | "redis_url" => remarks.add(format!(
                    "{place}.{name} is not carried over: replicas share budgets by [store] postgres, and agree on \
                     nodes without talking"
                )),
                _ => remarks.add(format!("{place}.{name} is not carried over")),
            }
        }
    }
    defaults
}

fn strategy(value: &Value, remarks: &mut Remarks) -> &'static str {
    let name = value.as_str().unwrap_or_default();
    let (policy, told) = match name {
        "simple-shuffle" => return "weighted",
        "least-busy" => return "least-connections",
        "latency-based-routing" => {
            ("expected-completion", "the gateway's own expectation of the answer's end")
        }
        "usage-based-routing" | "usage-based-routing-v2" => ("least-connections", "requests under way"),
        "cost-based-routing" => {
            ("expected-completion", "own machines first, priced ones only if these are too slow")
        }
        _ => ("expected-completion", "the gateway's own expectation of the answer's end"),
    };
    remarks.add(format!("router_settings.routing_strategy {name:?} is written as {policy:?}: {told}"));
    policy
}

fn retries(place: &str, value: &Value, output: &mut Output, remarks: &mut Remarks) {
    let Some(retries) = value.as_u64() else {
        remarks.add(format!("{place}.num_retries is no whole number and is not carried over"));
        return;
    };
    let attempts = retries.saturating_add(1);
    if attempts > MOST_ATTEMPTS {
        remarks.add(format!("{place}.num_retries is {retries}; {} are the most", MOST_ATTEMPTS - 1));
    }
    output.attempts = Some(attempts.min(MOST_ATTEMPTS));
}

fn cache_params(place: &str, value: &Value, output: &mut Output, remarks: &mut Remarks) {
    let Value::Object(params) = value else { return };
    output.cache_ms = params.get("ttl").and_then(seconds);
    if params.get("type").is_some_and(|kind| kind != "local") {
        remarks.add(format!("{place}.cache_params.type: answers are kept in this process only"));
    }
    remarks.rest(&format!("{place}.cache_params"), params, &["ttl", "type"]);
}

/// Reads `model_group_alias`.
pub(super) fn aliases(router: Option<&Map<String, Value>>, output: &mut Output, remarks: &mut Remarks) {
    let Some(Value::Object(aliases)) = router.and_then(|router| router.get("model_group_alias")) else {
        return;
    };
    for (alias, to) in aliases {
        let place = format!("router_settings.model_group_alias.{alias}");
        let name = match to {
            Value::String(name) => Some(name.clone()),
            Value::Object(map) => text(map, "model"),
            _ => None,
        };
        let taken = output.models.iter().any(|model| model.name == *alias || model.aliases.contains(alias));
        let model = name.and_then(|name| output.models.iter_mut().find(|model| model.name == name));
        match model {
            Some(model) if !taken && super::output::plain(alias) == *alias => {
                model.aliases.push(alias.clone())
            }
            Some(_) => remarks
                .add(format!("{place} is not carried over: the name is taken or not one for the gateway")),
            None => remarks.add(format!("{place} is not carried over: its model is not there")),
        }
    }
}

/// Reads `general_settings`.
pub(super) fn general(table: &Map<String, Value>, output: &mut Output, remarks: &mut Remarks) {
    for name in table.keys() {
        match name.as_str() {
            "master_key" => {
                let given = text(table, "master_key").unwrap_or_default();
                let name = variable(&given).unwrap_or("LITELLM_MASTER_KEY").to_owned();
                if variable(&given).is_none() {
                    remarks.add(format!(
                        "general_settings.master_key stands in the file; it is not repeated: put it into the \
                         environment variable {name}"
                    ));
                }
                output.master_key = Some(name);
            }
            "database_url" | "store_model_in_db" => remarks.add(format!(
                "general_settings.{name} is not carried over: keys, teams and budgets that LiteLLM keeps in its \
                 database are to be written as [[key]], [[team]] and [[budget]]"
            )),
            _ => remarks.add(format!("general_settings.{name} is not carried over")),
        }
    }
}
