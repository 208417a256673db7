//! Several models in one exposition, loaded and unloaded while it is asked for.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use events::{
    Ending, EngineShape, Event, Format, Gauges, HourlyPrice, LoadEvent, Metrics, ModelBudget, ModelEvent,
    ModelMemory, ModelMetrics, ModelState, Rejection, UnloadReason,
};

/// Labels of a series, sorted.
type Labels = Vec<(String, String)>;
/// Samples of a family: names and labels, and values.
type Samples = BTreeMap<(String, Labels), f64>;

/// An exposition, read as the formats demand it: each family has one HELP and one TYPE, in this order, before all of
/// its samples, which lie together; no sample occurs twice; OpenMetrics ends in `# EOF`.
fn parse(text: &str, format: Format) -> BTreeMap<String, (String, Samples)> {
    let mut families: BTreeMap<String, (String, Samples)> = BTreeMap::new();
    let mut help: Option<String> = None;
    let mut now: Option<String> = None;
    let body = match format {
        Format::OpenMetrics => text.strip_suffix("# EOF\n").expect("the end's mark"),
        Format::Prometheus => text,
    };
    assert!(body.ends_with('\n') && !body.contains("# EOF"));
    for line in body.strip_suffix('\n').unwrap().split('\n') {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            assert!(help.is_none(), "two HELP lines before a TYPE: {line}");
            help = Some(rest.split_once(' ').unwrap().0.to_owned());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(help.take().as_deref(), Some(name), "HELP is of another family than TYPE");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(is_name(name), "{name}");
            let old = families.insert(name.to_owned(), (kind.to_owned(), Samples::new()));
            assert!(old.is_none(), "{name} has two TYPE lines");
            now = Some(name.to_owned());
        } else {
            let (name, labels, value) = sample(line);
            let family = now.as_deref().expect("a TYPE comes first");
            let (kind, samples) = families.get_mut(family).unwrap();
            let base = match (kind.as_str(), format) {
                ("counter", Format::Prometheus) => {
                    assert!(family.ends_with("_total"), "the counter {family} has no suffix");
                    Some(name.as_str())
                }
                ("counter", Format::OpenMetrics) => name.strip_suffix("_total"),
                ("histogram", _) => ["_bucket", "_sum", "_count"].iter().find_map(|s| name.strip_suffix(s)),
                _ => Some(name.as_str()),
            };
            assert_eq!(base, Some(family), "a sample lies among those of another family: {line}");
            assert!(samples.insert((name, labels), value).is_none(), "twice: {line}");
        }
    }
    assert!(help.is_none(), "a HELP without TYPE");
    families.values().filter(|(kind, _)| kind == "histogram").for_each(|(_, samples)| check_buckets(samples));
    families
}

fn is_name(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// The name, the labels and the value of a line.
fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).unwrap();
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while let Some((key, after)) = rest.split_once("=\"") {
            if rest.starts_with('}') {
                break;
            }
            assert!(is_name(key) && !key.contains(':'), "label {key} in {line}");
            let (value, after) = unescape(after);
            labels.push((key.to_owned(), value));
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        rest = rest.strip_prefix('}').unwrap();
    }
    labels.sort();
    let keys: BTreeSet<&String> = labels.iter().map(|(key, _)| key).collect();
    assert_eq!(keys.len(), labels.len(), "a label occurs twice: {line}");
    (name.to_owned(), labels, rest.strip_prefix(' ').unwrap().parse().unwrap())
}

/// A label's value up to its closing quote, and what comes behind.
fn unescape(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.push(match chars.next().unwrap().1 {
                'n' => '\n',
                c @ ('"' | '\\') => c,
                c => panic!("\\{c} is no escape"),
            }),
            c => value.push(c),
        }
    }
    panic!("a quote is not closed in {text}");
}

/// The buckets of each series never fall, and the last equals its count.
fn check_buckets(samples: &Samples) {
    let mut series: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
    for ((name, labels), value) in samples.iter().filter(|((name, _), _)| name.ends_with("_bucket")) {
        let (le, rest): (Vec<_>, Vec<_>) = labels.iter().cloned().partition(|(key, _)| key == "le");
        assert_eq!(le.len(), 1, "{name}");
        series.entry(rest).or_default().push((le[0].1.parse().unwrap(), *value));
    }
    for (labels, mut buckets) in series {
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(buckets.is_sorted_by(|a, b| a.1 <= b.1), "{labels:?}");
        let (bound, last) = *buckets.last().unwrap();
        assert!(bound.is_infinite());
        let count = samples.iter().find(|((name, of), _)| name.ends_with("_count") && *of == labels);
        assert_eq!(count.map(|(_, count)| *count), Some(last), "{labels:?}");
    }
}

/// The value of a series with this model's label, and another.
fn value(families: &BTreeMap<String, (String, Samples)>, series: &str, model: &str, label: &str) -> f64 {
    let base = ["_bucket", "_sum", "_count"].iter().find_map(|s| series.strip_suffix(s)).unwrap_or(series);
    let (_, samples) =
        families.get(base).or_else(|| families.get(series)).unwrap_or_else(|| panic!("no {series}"));
    let is = |(name, labels): &(String, Labels)| {
        let has = |key: &str, value: &str| labels.iter().any(|(k, v)| k == key && v == value);
        name == series
            && has("model_name", model)
            && has("engine", "0")
            && (label.is_empty() || labels.iter().any(|(_, value)| value == label))
    };
    let found: Vec<f64> = samples.iter().filter(|(key, _)| is(key)).map(|(_, value)| *value).collect();
    assert_eq!(found.len(), 1, "{series} of {model} with {label}: {found:?}");
    found[0]
}

#[test]
#[should_panic(expected = "a_total has two TYPE lines")]
fn a_family_that_is_written_in_two_places_is_found() {
    let block =
        |model| format!("# HELP a_total A.\n# TYPE a_total counter\na_total{{model_name=\"{model}\"}} 1\n");
    parse(&(block("x") + &block("y")), Format::Prometheus);
}

#[test]
#[should_panic(expected = "a sample lies among those of another family: a 2")]
fn a_sample_that_is_apart_from_its_family_is_found() {
    let text = "# HELP a A.\n# TYPE a gauge\na 1\n# HELP b B.\n# TYPE b gauge\nb 1\na 2\n";
    parse(text, Format::Prometheus);
}

#[test]
#[should_panic(expected = "twice: a{m=\"x\"} 2")]
fn a_series_that_is_written_twice_is_found() {
    parse("# HELP a A.\n# TYPE a gauge\na{m=\"x\"} 1\na{m=\"x\"} 2\n", Format::Prometheus);
}

const SHAPE: EngineShape = EngineShape { context: 1_000, kv_blocks: 40, kv_block_tokens: 32 };
const MS: Duration = Duration::from_millis(1);

fn loaded(metrics: &Metrics, name: &str) -> Arc<ModelMetrics> {
    let model = metrics.model(name);
    model.record_load(LoadEvent::Began { bytes: 5 });
    model.engine_started(SHAPE);
    model.record_load(LoadEvent::Loaded { took: 700 * MS });
    model
}

fn unload(model: &ModelMetrics, last: &Gauges) {
    model.record_load(LoadEvent::Draining);
    model.engine_ended(last);
    model.record_load(LoadEvent::Unloaded(UnloadReason::KeepAlive));
}

/// Every event once, each so often as given.
fn work(model: &ModelMetrics, times: usize) {
    for _ in 0..times {
        for event in [
            ModelEvent::Rejected(Rejection::QueuedTokens),
            ModelEvent::SlowReader,
            ModelEvent::FirstToken { after: 30 * MS },
            ModelEvent::NextToken { after: 20 * MS },
            ModelEvent::Step { rows: 7, decoded: 2, weight_bytes: 6_000, mixed: true, took: 3 * MS },
            ModelEvent::DeviceTurn { waited: 2 * MS, computed: 250 * MS },
            ModelEvent::Verified { proposed: 4, accepted: 2 },
            ModelEvent::Finished {
                ending: Ending::Stop,
                prompt_tokens: 12,
                cached_tokens: 4,
                generated_tokens: 2,
                max_tokens: Some(64),
                total: 70 * MS,
                queued: MS,
                prefill: 20 * MS,
                decode: 20 * MS,
                preemptions: 0,
            },
            ModelEvent::GroupFinished { n: 1, longest_tokens: 2 },
        ] {
            model.record(event);
        }
    }
}

#[test]
fn two_models_share_each_family_and_no_number() {
    let metrics = Metrics::new("1");
    metrics.offer_llamacpp();
    metrics.add_price(HourlyPrice { amount: 7_200.0, currency: "EUR" });
    metrics.record(Event::Rejected(Rejection::BodySize));
    let (a, b) = (loaded(&metrics, "a"), loaded(&metrics, "b"));
    metrics.model("not-loaded").record_load(LoadEvent::Failed);
    work(&a, 3);
    work(&b, 5);
    metrics.set_budget(&ModelBudget { budget_bytes: 4 << 30, reserved_bytes: 7 });
    let memory = ModelMemory { weights_bytes: 1 << 30, kv_cache_bytes: 9, ..ModelMemory::default() };
    let of_b = Gauges { running: 2, kv_blocks_used: 10, kv_blocks_total: 40, memory, ..Gauges::default() };
    let (prompt_time, output_time) = (500 * MS, 250 * MS);
    let gauges = [
        ("b", Gauges { prompt_time, output_time, ..of_b }),
        ("a", Gauges { running: 1, preemptions: 4, ..Gauges::default() }),
        ("nobody", Gauges { running: 100, ..Gauges::default() }),
    ];
    for format in [Format::Prometheus, Format::OpenMetrics] {
        let text = metrics.write(&gauges, format);
        let families = parse(&text, format);
        let of = |series: &str, model: &str, label: &str| {
            let short = series.strip_suffix("_total");
            match (format, short) {
                // The samples have the suffix, their family has not.
                (Format::OpenMetrics, Some(short)) if families.contains_key(short) => {
                    let (_, samples) = &families[short];
                    let one = BTreeMap::from([(series.to_owned(), ("counter".to_owned(), samples.clone()))]);
                    value(&one, series, model, label)
                }
                _ => value(&families, series, model, label),
            }
        };
        for (model, n, running) in [("a", 3.0, 1.0), ("b", 5.0, 2.0)] {
            assert_eq!(of("vllm:generation_tokens_total", model, ""), 2.0 * n);
            assert_eq!(of("vllm:num_requests_running", model, ""), running);
            assert_eq!(of("vllm:request_success_total", model, "stop"), n);
            assert_eq!(of("vllm:admission_rejections_total", model, "max_num_queued_tokens"), n);
            assert_eq!(of("vllm:time_to_first_token_seconds_count", model, ""), n);
            assert_eq!(of("gristmill_steps_rows_total", model, "8"), 7.0 * n);
            assert_eq!(of("gristmill_device_compute_seconds_total", model, ""), 0.25 * n);
            assert_eq!(of("gristmill_device_turn_wait_seconds_bucket", model, "0.0025"), n);
            assert_eq!(of("gristmill_slow_readers_total", model, ""), n);
            assert_eq!(of("vllm:cache_config_info", model, "40"), 1.0);
            assert_eq!(of("gristmill_model_state", model, "ready"), 1.0);
            assert_eq!(of("gristmill_model_state", model, "loading"), 0.0);
            assert_eq!(of("gristmill_model_load_duration_seconds_sum", model, ""), 0.7);
        }
        assert_eq!(of("vllm:num_preemptions_total", "a", ""), 4.0);
        assert_eq!(of("vllm:num_preemptions_total", "b", ""), 0.0);
        assert_eq!(of("vllm:kv_cache_usage_perc", "b", ""), 0.25);
        assert_eq!(of("gristmill_model_memory_reserved_bytes", "b", ""), 5.0);
        assert_eq!(of("gristmill_model_memory_bytes", "b", "weights"), f64::from(1 << 30));
        assert_eq!(of("gristmill_model_memory_bytes", "b", "kv_cache"), 9.0);
        assert_eq!(of("gristmill_model_memory_bytes", "a", "kv_cache"), 0.0);
        for (kind, of_b) in [("prompt", 0.5), ("output", 0.25)] {
            assert_eq!(of("gristmill_model_machine_seconds_total", "a", kind), 0.0);
            assert_eq!(of("gristmill_model_machine_seconds_total", "b", kind), of_b);
            assert_eq!(of("gristmill_model_cost_total", "a", kind), 0.0);
            assert_eq!(of("gristmill_model_cost_total", "b", kind), 2.0 * of_b);
        }
        assert_eq!(of("gristmill_model_state", "not-loaded", "failed"), 1.0);
        assert_eq!(of("gristmill_model_loads_total", "not-loaded", "failure"), 1.0);
        assert!(!text.contains("vllm:generation_tokens_total{model_name=\"not-loaded\""));
        assert!(!text.contains("nobody"));
        for line in [
            "gristmill_requests_rejected_total{reason=\"max_num_queued_tokens\"} 8",
            "gristmill_requests_rejected_total{reason=\"body_size\"} 1",
            "gristmill_memory_budget_bytes 4294967296",
            "gristmill_memory_reserved_bytes 7",
            "llamacpp:tokens_predicted_total 16",
        ] {
            assert!(text.lines().any(|l| l == line), "no {line} in\n{text}");
        }
    }
}

#[test]
fn a_model_that_is_loaded_again_goes_on_counting() {
    let metrics = Metrics::new("1");
    let read =
        |gauges: &[(&str, Gauges)]| parse(&metrics.write(gauges, Format::Prometheus), Format::Prometheus);
    let counted = |preemptions, running| {
        let prompt_time = MS * u32::try_from(preemptions).unwrap();
        Gauges { preemptions, running, prompt_time, ..Gauges::default() }
    };
    let first = loaded(&metrics, "m");
    work(&first, 2);
    read(&[("m", counted(3, 1))]);
    // What happened since the last look counts too.
    unload(&first, &counted(4, 0));
    let families = read(&[]);
    let of = |families: &_, series: &str, label: &str| value(families, series, "m", label);
    assert_eq!(of(&families, "vllm:num_preemptions_total", ""), 4.0);
    assert_eq!(of(&families, "gristmill_model_state", "registered"), 1.0);
    assert_eq!(of(&families, "gristmill_model_memory_reserved_bytes", ""), 0.0);
    assert_eq!(of(&families, "gristmill_model_machine_seconds_total", "prompt"), 0.004);
    assert_eq!(of(&families, "vllm:num_requests_running", ""), 0.0);
    assert_eq!(of(&families, "vllm:generation_tokens_total", ""), 4.0);

    let again = metrics.model("m");
    assert!(Arc::ptr_eq(&first, &again));
    again.record_load(LoadEvent::Began { bytes: 5 });
    again.record_load(LoadEvent::Awaited { waited: 400 * MS });
    assert_eq!(again.state(), ModelState::Loading);
    again.engine_started(EngineShape { context: 8_000, kv_blocks: 99, kv_block_tokens: 32 });
    again.record_load(LoadEvent::Loaded { took: MS });
    work(&again, 1);
    let families = read(&[("m", counted(10, 2))]);
    assert_eq!(of(&families, "vllm:num_preemptions_total", ""), 14.0);
    assert_eq!(of(&families, "gristmill_model_machine_seconds_total", "prompt"), 0.014);
    assert_eq!(of(&families, "vllm:num_requests_running", ""), 2.0);
    assert_eq!(of(&families, "vllm:generation_tokens_total", ""), 6.0);
    assert_eq!(of(&families, "vllm:cache_config_info", "99"), 1.0);
    assert_eq!(of(&families, "gristmill_model_loads_total", "success"), 2.0);
    assert_eq!(of(&families, "gristmill_model_unloads_total", "keep_alive"), 1.0);
    assert_eq!(of(&families, "gristmill_model_load_wait_seconds_bucket", "0.5"), 1.0);
    // Buckets of token counts stay those of the first context.
    let text = metrics.write(&[], Format::Prometheus);
    assert!(text.contains("vllm:request_prompt_tokens_bucket{le=\"1000.0\""));
    assert!(!text.contains("vllm:request_prompt_tokens_bucket{le=\"2000.0\""));
}

#[test]
fn looks_that_come_late_count_nothing_twice() {
    let metrics = Metrics::new("1");
    let model = loaded(&metrics, "m");
    let counted = |preemptions| Gauges { preemptions, ..Gauges::default() };
    let seen = [100, 150, 120, 150, 200].map(|n| {
        let text = metrics.write(&[("m", counted(n))], Format::Prometheus);
        value(&parse(&text, Format::Prometheus), "vllm:num_preemptions_total", "m", "")
    });
    assert_eq!(seen, [100.0, 150.0, 150.0, 150.0, 200.0]);
    drop(model);
}

#[test]
fn names_are_escaped() {
    let metrics = Metrics::new("1");
    let names =
        ["a\"b", "a\\b", "a\nb", "a\\nb", "", "ümlaut {le=\"1\"} 7", "x\",engine=\"1", "a\r", "c,d=\"e\""];
    let models: Vec<_> = names.iter().map(|name| loaded(&metrics, name)).collect();
    for (i, model) in models.iter().enumerate() {
        work(model, i + 1);
    }
    let text = metrics.write(&[], Format::Prometheus);
    let families = parse(&text, Format::Prometheus);
    for (i, name) in names.iter().enumerate() {
        assert_eq!(value(&families, "gristmill_slow_readers_total", name, ""), (i + 1) as f64, "{name:?}");
        assert_eq!(value(&families, "vllm:request_params_n_count", name, ""), (i + 1) as f64, "{name:?}");
    }
    parse(&metrics.write(&[], Format::OpenMetrics), Format::OpenMetrics);
}

#[test]
fn a_thousand_names_and_no_more() {
    let metrics = Metrics::new("1");
    for i in 0..3_000 {
        metrics.model(&format!("model {i:04}")).record_load(LoadEvent::Failed);
    }
    // Names that were there before are still their own.
    work(&loaded(&metrics, "model 0001"), 2);
    for name in ["model 2000", "model 2001", "other"] {
        work(&loaded(&metrics, name), 1);
    }
    let held = Gauges { running: 2, preemptions: 3, ..Gauges::default() };
    let engines = [("model 0001", held), ("model 2000", held), ("model 2001", held)];
    let families = parse(&metrics.write(&engines, Format::Prometheus), Format::Prometheus);
    let states: BTreeSet<&str> = families["gristmill_model_state"]
        .1
        .keys()
        .flat_map(|(_, labels)| labels.iter().filter(|(key, _)| key == "model_name"))
        .map(|(_, name)| name.as_str())
        .collect();
    assert_eq!(states.len(), 1_025);
    assert!(states.contains("model 1023") && states.contains("other") && !states.contains("model 1024"));
    assert_eq!(value(&families, "gristmill_slow_readers_total", "model 0001", ""), 2.0);
    assert_eq!(value(&families, "gristmill_slow_readers_total", "other", ""), 3.0);
    assert_eq!(value(&families, "gristmill_model_loads_total", "other", "failure"), 1_976.0);
    assert_eq!(value(&families, "vllm:num_requests_running", "other", ""), 4.0);
    assert_eq!(value(&families, "vllm:num_preemptions_total", "other", ""), 6.0);
}

#[test]
fn a_thousand_loads_leave_the_text_as_long_as_one() {
    let metrics = Metrics::new("1");
    let lines = |metrics: &Metrics| metrics.write(&[], Format::Prometheus).lines().count();
    unload(&loaded(&metrics, "m"), &Gauges::default());
    let once = lines(&metrics);
    for _ in 0..1_000 {
        unload(&loaded(&metrics, "m"), &Gauges::default());
    }
    assert_eq!(lines(&metrics), once);
    let families = parse(&metrics.write(&[], Format::Prometheus), Format::Prometheus);
    assert_eq!(value(&families, "gristmill_model_loads_total", "m", "success"), 1_001.0);
}

#[test]
fn the_order_is_always_the_same() {
    let text = |names: [&str; 3]| {
        let metrics = Metrics::new("1");
        names.iter().for_each(|name| work(&loaded(&metrics, name), 1));
        for method in ["PUT", "GET", "POST"] {
            metrics.record(Event::HttpAnswered { handler: "/x", method, status: 200, took: MS });
        }
        metrics.write(&[], Format::OpenMetrics)
    };
    assert_eq!(text(["a", "b", "c"]), text(["c", "a", "b"]));
}

#[test]
fn models_come_and_go_while_others_count_and_somebody_looks() {
    let metrics = Metrics::new("1");
    let steady = loaded(&metrics, "steady");
    std::thread::scope(|scope| {
        scope.spawn(|| work(&steady, 5_000));
        for name in ["x", "y"] {
            let metrics = &metrics;
            scope.spawn(move || (0..100).for_each(|_| unload(&loaded(metrics, name), &Gauges::default())));
        }
        for _ in 0..50 {
            let families = parse(&metrics.write(&[], Format::OpenMetrics), Format::OpenMetrics);
            let (_, states) = &families["gristmill_model_state"];
            let models = states.len() as f64 / ModelState::ALL.len() as f64;
            assert_eq!(states.values().sum::<f64>(), models, "a model is in one state");
        }
    });
    let families = parse(&metrics.write(&[], Format::Prometheus), Format::Prometheus);
    assert_eq!(value(&families, "vllm:generation_tokens_total", "steady", ""), 10_000.0);
    assert_eq!(value(&families, "gristmill_model_loads_total", "x", "success"), 100.0);
}
