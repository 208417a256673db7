//! `docs/metrics.md` lists every metric, and the dashboard and the alerts use only what there is.
//! `GRISTMILL_BLESS=1` rewrites the page's table.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use events::{
    EngineShape, Event, Format, Gauges, HourlyPrice, JobCount, JobEnd, JobMetrics, JobsNow, MachineTime,
    Metrics, ModelBudget, Process,
};
use serde_json::Value;

const BEGIN: &str = "<!-- metrics: made by crates/events/tests/documented.rs -->\n";
const END: &str = "<!-- /metrics -->";
/// Labels that a scrape adds.
const OF_A_SCRAPE: [&str; 2] = ["instance", "job"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All families, with the series that only exist once something happened.
fn exposition() -> String {
    let metrics = Metrics::new("1.2.3");
    metrics.model("tiny").engine_started(EngineShape { context: 1_000, kv_blocks: 40, kv_block_tokens: 32 });
    metrics.set_budget(&ModelBudget::default());
    metrics.set_process(&Process::default());
    metrics.add_price(HourlyPrice { amount: 0.79, currency: "USD" });
    metrics.set_time(&MachineTime::default());
    let took = Duration::from_millis(200);
    metrics.record(Event::HttpAnswered { handler: "/v1/models", method: "GET", status: 200, took });
    metrics.write(&[("tiny", Gauges::default())], Format::Prometheus) + &of_jobs()
}

/// The families of jobs.
fn of_jobs() -> String {
    let metrics = JobMetrics::new();
    let end = JobEnd { outcome: "succeeded", line: false, waited_s: Some(1.0), ran_s: Some(1.0) };
    metrics.ended(&end);
    metrics.ended(&JobEnd { line: true, ..end });
    metrics.retried("http_500");
    metrics.leases_lost(1);
    metrics.fenced();
    metrics.delivery("delivered", 0.1);
    let count = JobCount { state: "queued", class: "batch", jobs: 1, oldest_s: Some(1.0) };
    let now = JobsNow { counts: vec![count], batches: vec![("in_progress", 1)], ..JobsNow::default() };
    metrics.write(&now, Format::Prometheus)
}

struct Family {
    help: String,
    kind: String,
    labels: BTreeSet<String>,
}

/// Family → what is known of it, and series → labels.
fn exposed() -> (BTreeMap<String, Family>, BTreeMap<String, BTreeSet<String>>) {
    let text = exposition();
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut series: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut help = String::new();
    let mut family = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').unwrap().1.trim_end_matches('.').to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            family = name.to_owned();
            let (help, kind) = (std::mem::take(&mut help), kind.to_owned());
            families.insert(family.clone(), Family { help, kind, labels: BTreeSet::new() });
        } else {
            let name = line.split(['{', ' ']).next().unwrap();
            let labels = line.split_once('{').map_or("", |(_, rest)| rest.rsplit_once('}').unwrap().0);
            let labels: BTreeSet<String> =
                labels.split("\",").filter_map(|label| Some(label.split_once('=')?.0.to_owned())).collect();
            series.entry(name.to_owned()).or_default().extend(labels.clone());
            families.get_mut(&family).unwrap().labels.extend(labels);
        }
    }
    (families, series)
}

#[test]
fn the_page_lists_every_metric() {
    let mut table = "| metric | type | labels | what |\n|---|---|---|---|\n".to_owned();
    for (name, family) in exposed().0 {
        let labels: Vec<String> =
            family.labels.iter().filter(|label| *label != "le").map(|label| format!("`{label}`")).collect();
        table += &format!("| `{name}` | {} | {} | {} |\n", family.kind, labels.join(" "), family.help);
    }
    let path = root().join("docs/metrics.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = page.split_once(BEGIN).expect("the mark of the table's beginning");
    let (old, tail) = rest.split_once(END).expect("the mark of the table's end");
    if std::env::var_os("GRISTMILL_BLESS").is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}{table}{END}{tail}")).unwrap();
        return;
    }
    assert_eq!(old, table, "run: GRISTMILL_BLESS=1 cargo test -p events --test documented");
}

/// A query's series, each with the labels it selects by.
fn selected(query: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    let mut rest = query;
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    while let Some(begin) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '"') {
        rest = &rest[begin..];
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = quoted.split_once('"').map_or("", |(_, after)| after);
            continue;
        }
        let end = rest.find(|c| !in_name(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        rest = after;
        let ours = ["vllm:", "gristmill_", "process_", "http_"].iter().any(|prefix| name.starts_with(prefix));
        // Whatever has a selector is a series too, by whatever name.
        if !ours && !after.starts_with('{') {
            continue;
        }
        let mut labels = Vec::new();
        if let Some(selector) = after.strip_prefix('{') {
            let (inside, behind) = selector.split_once('}').expect("a selector is closed");
            let name_of = |part: &str| Some(part.split_once(['=', '!'])?.0.trim().to_owned());
            labels = inside.split(',').filter_map(name_of).collect();
            rest = behind;
        }
        found.push((name.to_owned(), labels));
    }
    found
}

/// Labels of `by (…)`, `on (…)` and `group_left (…)`.
fn grouped(query: &str) -> Vec<String> {
    let lists = [" by (", " on (", "group_left ("].into_iter();
    let lists = lists.flat_map(|word| query.split(word).skip(1));
    let lists = lists.filter_map(|rest| rest.split(')').next());
    lists.flat_map(|list| list.split(',').map(|label| label.trim().to_owned())).collect()
}

fn check(query: &str, place: &str) {
    let (_, series) = exposed();
    let used = selected(query);
    assert!(!used.is_empty(), "{place}: no metric in {query}");
    let mut known: BTreeSet<String> = OF_A_SCRAPE.iter().map(|label| (*label).to_owned()).collect();
    for (name, labels) in used {
        if name == "up" {
            continue;
        }
        let Some(own) = series.get(&name) else { panic!("{place}: there is no {name}") };
        for label in labels {
            let of_a_scrape = OF_A_SCRAPE.contains(&label.as_str());
            assert!(own.contains(&label) || of_a_scrape, "{place}: {name} has no label {label}");
        }
        known.extend(own.iter().cloned());
    }
    for label in grouped(query) {
        assert!(known.contains(&label), "{place}: no metric here has the label {label}");
    }
}

fn strings<'a>(value: &'a Value, key: &str, out: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            out.extend(map.get(key).and_then(Value::as_str));
            map.values().for_each(|value| strings(value, key, out));
        }
        Value::Array(list) => list.iter().for_each(|value| strings(value, key, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn the_dashboard_uses_what_there_is() {
    let text = std::fs::read_to_string(root().join("deploy/grafana/gristmill.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut queries = Vec::new();
    strings(&dashboard, "expr", &mut queries);
    assert!(queries.len() > 30, "{} queries", queries.len());
    queries.iter().for_each(|query| check(query, "gristmill.json"));
    let ids: Vec<u64> =
        dashboard["panels"].as_array().unwrap().iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "two panels have one id");
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    for definition in variables.iter().filter_map(|variable| variable["definition"].as_str()) {
        let inside = definition.strip_prefix("label_values(").unwrap().strip_suffix(')').unwrap();
        let (metric, label) = inside.split_once(", ").unwrap();
        check(&format!("{metric}{{{label}=\"\"}}"), definition);
    }
}

#[test]
fn the_alerts_use_what_there_is() {
    let text = std::fs::read_to_string(root().join("deploy/prometheus/alerts.yml")).unwrap();
    let rules: Vec<&str> = text.split("- alert: ").skip(1).collect();
    assert!(rules.len() > 8);
    for rule in rules {
        let name = rule.lines().next().unwrap();
        let (_, expr) = rule.split_once("expr: ").unwrap_or_else(|| panic!("{name} has no expr"));
        let (expr, _) =
            expr.split_once("\n        for: ").unwrap_or_else(|| panic!("{name} has no `for` behind expr"));
        check(expr, name);
    }
}

#[test]
fn queries_are_read_as_prometheus_does() {
    let query = "sum by (le, reason) (rate(vllm:a_bucket{model_name=~\"$model\",le!=\"1\"}[5m])) / on (instance) http_b > 0 and up{job=\"process_x\"}";
    let series =
        |name: &str, labels: &[&str]| (name.to_owned(), labels.iter().map(|l| (*l).to_owned()).collect());
    assert_eq!(
        selected(query),
        [series("vllm:a_bucket", &["model_name", "le"]), series("http_b", &[]), series("up", &["job"])]
    );
    assert_eq!(grouped(query), ["le", "reason", "instance"]);
}

#[test]
#[should_panic(expected = "there is no vllm:no_such_thing")]
fn an_unknown_metric_is_found() {
    check("rate(vllm:no_such_thing[5m])", "here");
}

#[test]
#[should_panic(expected = "has no label colour")]
fn an_unknown_label_is_found() {
    check("gristmill_ready{colour=\"red\"}", "here");
}
