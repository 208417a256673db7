//! What a scraper sees.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use events::{
    Ending, EngineShape, Event, Format, Gauges, Metrics, ModelEvent, ModelMemory, ModelMetrics, Process,
    Rejection,
};

const NAME: &str = "tiny \"quoted\\\n";

fn started(metrics: &Metrics, name: &str, context: usize, kv_blocks: usize) -> Arc<ModelMetrics> {
    let model = metrics.model(name);
    model.engine_started(EngineShape { context, kv_blocks, kv_block_tokens: 32 });
    model
}

fn served() -> Metrics {
    let metrics = Metrics::new("1.2.3");
    let model = started(&metrics, NAME, 1_000, 40);
    metrics.record(Event::Ready { after: Duration::from_millis(1_500) });
    metrics.record(Event::HttpAnswered {
        handler: "/v1/models",
        method: "GET",
        status: 204,
        took: Duration::from_millis(200),
    });
    model.record(ModelEvent::Rejected(Rejection::QueuedRequests));
    model.record(ModelEvent::FirstToken { after: Duration::from_millis(30) });
    model.record(ModelEvent::NextToken { after: Duration::from_millis(20) });
    model.record(ModelEvent::NextToken { after: Duration::from_millis(90) });
    model.record(ModelEvent::Step {
        rows: 7,
        mixed: true,
        decoded: 2,
        weight_bytes: 6_000,
        took: Duration::from_millis(3),
    });
    model.record(ModelEvent::Verified { proposed: 4, accepted: 2 });
    model.record(ModelEvent::Verified { proposed: 3, accepted: 0 });
    model.record(ModelEvent::Finished {
        ending: Ending::Stop,
        prompt_tokens: 12,
        cached_tokens: 4,
        generated_tokens: 3,
        max_tokens: Some(64),
        total: Duration::from_millis(700),
        queued: Duration::from_millis(10),
        prefill: Duration::from_millis(20),
        decode: Duration::from_millis(110),
        preemptions: 0,
    });
    model.record(ModelEvent::GroupFinished { n: 2, longest_tokens: 3 });
    metrics
}

const GAUGES: Gauges = Gauges {
    running: 3,
    waiting: 2,
    waiting_tokens: 99,
    kv_blocks_used: 10,
    kv_blocks_cached: 20,
    kv_blocks_total: 40,
    state_snapshots: 6,
    state_restores: 7,
    state_restored_tokens: 224,
    state_replayed_tokens: 8,
    warmed_tokens: 640,
    preemptions: 5,
    prefix_queries: 100,
    prefix_hits: 32,
    prefill_rows: 77,
    prompt_time: Duration::from_millis(1_250),
    output_time: Duration::from_millis(500),
    memory: ModelMemory {
        weights_bytes: 4_096,
        kv_cache_bytes: 64,
        state_bytes: 32,
        scratch_bytes: 0,
        caches_bytes: 0,
    },
};

const M: &str = r#"model_name="tiny \"quoted\\\n",engine="0""#;

#[test]
fn prometheus_lines() {
    let text = served().write(&[(NAME, GAUGES)], Format::Prometheus);
    for line in [
        "# HELP vllm:num_requests_running Requests being computed.".to_owned(),
        "# TYPE vllm:num_requests_running gauge".into(),
        format!("vllm:num_requests_running{{{M}}} 3"),
        format!("vllm:num_requests_waiting{{{M}}} 2"),
        format!("vllm:num_requests_waiting_by_reason{{{M},reason=\"capacity\"}} 2"),
        format!("vllm:num_requests_waiting_by_reason{{{M},reason=\"deferred\"}} 0"),
        format!("vllm:kv_cache_usage_perc{{{M}}} 0.25"),
        format!("gristmill_kv_cache_kept_perc{{{M}}} 0.5"),
        format!("gristmill_state_snapshots{{{M}}} 6"),
        format!("gristmill_state_restores_total{{{M}}} 7"),
        format!("gristmill_state_restored_tokens_total{{{M}}} 224"),
        format!("gristmill_state_replayed_tokens_total{{{M}}} 8"),
        format!("gristmill_warmed_tokens_total{{{M}}} 640"),
        format!("gristmill_model_memory_bytes{{{M},use=\"state\"}} 32"),
        format!("vllm:prefix_cache_queries_total{{{M}}} 100"),
        format!("vllm:prefix_cache_hits_total{{{M}}} 32"),
        format!("gristmill_stall_seconds_count{{{M}}} 1"),
        "# TYPE vllm:prompt_tokens_total counter".into(),
        format!("vllm:prompt_tokens_total{{{M}}} 12"),
        format!("vllm:prompt_tokens_cached_total{{{M}}} 4"),
        format!("vllm:generation_tokens_total{{{M}}} 3"),
        format!("vllm:num_preemptions_total{{{M}}} 5"),
        format!("vllm:spec_decode_num_drafts_total{{{M}}} 2"),
        format!("vllm:spec_decode_num_draft_tokens_total{{{M}}} 7"),
        format!("vllm:spec_decode_num_accepted_tokens_total{{{M}}} 2"),
        format!("vllm:spec_decode_num_accepted_tokens_per_pos_total{{{M},position=\"1\"}} 1"),
        format!("vllm:spec_decode_num_accepted_tokens_per_pos_total{{{M},position=\"2\"}} 0"),
        format!("vllm:request_success_total{{{M},finished_reason=\"stop\"}} 1"),
        format!("vllm:request_success_total{{{M},finished_reason=\"abort\"}} 0"),
        format!("vllm:admission_rejections_total{{{M},reason=\"max_num_queued_reqs\"}} 1"),
        "# TYPE vllm:time_to_first_token_seconds histogram".into(),
        format!("vllm:time_to_first_token_seconds_bucket{{le=\"0.02\",{M}}} 0"),
        format!("vllm:time_to_first_token_seconds_bucket{{le=\"0.04\",{M}}} 1"),
        format!("vllm:time_to_first_token_seconds_bucket{{le=\"2560.0\",{M}}} 1"),
        format!("vllm:time_to_first_token_seconds_bucket{{le=\"+Inf\",{M}}} 1"),
        format!("vllm:time_to_first_token_seconds_count{{{M}}} 1"),
        format!("vllm:inter_token_latency_seconds_count{{{M}}} 2"),
        "# TYPE vllm:iteration_tokens_total histogram".into(),
        format!("vllm:iteration_tokens_total_sum{{{M}}} 7.0"),
        format!("vllm:request_params_max_tokens_sum{{{M}}} 64.0"),
        format!("vllm:request_params_n_sum{{{M}}} 2.0"),
        format!("vllm:request_prefill_kv_computed_tokens_sum{{{M}}} 8.0"),
        format!("vllm:cache_config_info{{{M},block_size=\"32\",num_gpu_blocks=\"40\"}} 1"),
        format!("vllm:prompt_tokens_by_source_total{{{M},source=\"local_compute\"}} 8"),
        format!("vllm:prompt_tokens_by_source_total{{{M},source=\"local_cache_hit\"}} 4"),
        format!("vllm:prompt_tokens_by_source_total{{{M},source=\"external_kv_transfer\"}} 0"),
        format!("gristmill_requests_cancelled_total{{{M},stage=\"queue\"}} 0"),
        format!("gristmill_weight_read_bytes_total{{{M}}} 6000"),
        format!("gristmill_weight_read_bytes_per_second{{{M}}} 2000000.0"),
        format!("gristmill_weight_read_bytes_per_token{{{M}}} 3000.0"),
        "http_request_duration_highr_seconds_bucket{le=\"0.25\"} 1".into(),
        "gristmill_ready 1".into(),
        "gristmill_load_seconds 1.5".into(),
        "gristmill_build_info{version=\"1.2.3\"} 1".into(),
        "gristmill_requests_rejected_total{reason=\"loading\"} 0".into(),
        "# TYPE http_requests_total counter".into(),
        "http_requests_total{handler=\"/v1/models\",status=\"2xx\",method=\"GET\"} 1".into(),
    ] {
        // The order of labels in a line means nothing.
        assert!(text.lines().any(|l| same(l, &line)), "no line {line}\nin\n{text}");
    }
    assert!(!text.contains("# EOF"));
    assert!(!text.contains("_total_total"), "a counter was named twice");
}

fn same(a: &str, b: &str) -> bool {
    if a.starts_with('#') || b.starts_with('#') {
        return a == b;
    }
    let sorted = |line: &str| {
        let (head, tail) = line.split_once('{')?;
        let (labels, value) = tail.rsplit_once('}')?;
        let mut labels: Vec<String> = labels.split(',').map(str::to_owned).collect();
        labels.sort();
        Some((head.to_owned(), labels, value.to_owned()))
    };
    match (sorted(a), sorted(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

#[test]
fn open_metrics_ends_once() {
    let text = served().write(&[(NAME, GAUGES)], Format::OpenMetrics);
    assert!(text.ends_with("# EOF\n"));
    assert_eq!(text.matches("# EOF").count(), 1);
    assert!(text.contains("# TYPE vllm:prompt_tokens counter\n"));
}

#[test]
fn every_family_has_one_help_and_one_type() {
    for format in [Format::Prometheus, Format::OpenMetrics] {
        let text = served().write(&[(NAME, GAUGES)], format);
        let mut types: HashMap<&str, &str> = HashMap::new();
        let mut helps = 0;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(types.insert(name, kind).is_none(), "{name} twice");
            }
            helps += usize::from(line.starts_with("# HELP "));
        }
        assert_eq!(helps, types.len());
        // Each sample belongs to a family.
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            let belongs = ["", "_total", "_bucket", "_sum", "_count"]
                .iter()
                .any(|s| name.strip_suffix(s).is_some_and(|family| types.contains_key(family)));
            assert!(belongs, "{name} has no TYPE");
        }
    }
}

#[test]
fn who_gives_up_is_counted_by_how_far_it_was() {
    let metrics = Metrics::new("1");
    let model = started(&metrics, "m", 100, 4);
    let ms = Duration::from_millis;
    for (ending, generated_tokens, prefill) in [
        (Ending::Abort, 0, ms(0)),
        (Ending::Abort, 0, ms(5)),
        (Ending::Abort, 0, ms(6)),
        (Ending::Abort, 7, ms(5)),
        (Ending::Stop, 7, ms(5)),
    ] {
        model.record(ModelEvent::Finished {
            ending,
            prompt_tokens: 12,
            cached_tokens: 0,
            generated_tokens,
            max_tokens: None,
            total: ms(9),
            queued: ms(1),
            prefill,
            decode: ms(0),
            preemptions: 0,
        });
    }
    let text = metrics.write(&[("m", GAUGES)], Format::Prometheus);
    for (stage, count) in [("queue", 1), ("prefill", 2), ("decode", 1)] {
        let m = r#"model_name="m",engine="0""#;
        let line = format!("gristmill_requests_cancelled_total{{{m},stage=\"{stage}\"}} {count}");
        assert!(text.lines().any(|l| same(l, &line)), "no {line} in\n{text}");
    }
}

#[test]
fn llama_servers_names_are_offered() {
    let metrics = Metrics::new("1");
    let model = started(&metrics, "m", 100, 4);
    metrics.offer_llamacpp();
    model.record(ModelEvent::Step {
        rows: 3,
        decoded: 3,
        mixed: false,
        weight_bytes: 0,
        took: Duration::from_millis(1),
    });
    let ended = |prompt_tokens, generated_tokens| ModelEvent::Finished {
        ending: Ending::Length,
        prompt_tokens,
        cached_tokens: 2,
        generated_tokens,
        max_tokens: None,
        total: Duration::from_secs(4),
        queued: Duration::ZERO,
        prefill: Duration::from_secs(1),
        decode: Duration::from_secs(2),
        preemptions: 0,
    };
    model.record(ended(12, 30));
    model.record(ended(8, 10));
    model.record(ended(50, 0));
    let text = metrics.write(&[("m", GAUGES)], Format::Prometheus);
    for line in [
        "# TYPE llamacpp:prompt_tokens_total counter",
        "llamacpp:prompt_tokens_total 16",
        "llamacpp:prompt_tokens_cached_total 4",
        "llamacpp:prompt_seconds_total 2.0",
        "llamacpp:tokens_predicted_total 40",
        "llamacpp:tokens_predicted_seconds_total 4.0",
        "llamacpp:n_decode_total 1",
        "llamacpp:n_tokens_max 42",
        "llamacpp:prompt_tokens_seconds 8.0",
        "llamacpp:predicted_tokens_seconds 10.0",
        "llamacpp:requests_processing 3",
        "llamacpp:requests_deferred 2",
    ] {
        assert!(text.lines().any(|l| l == line), "no {line} in\n{text}");
    }
    assert!(!served().write(&[(NAME, GAUGES)], Format::Prometheus).contains("llamacpp:"));
}

#[test]
fn the_process_is_told_as_it_is() {
    let metrics = Metrics::new("1");
    assert!(!metrics.write(&[], Format::Prometheus).contains("process_"));
    let mut process = Process { resident_bytes: Some(4_096), cpu_s: Some(1.5), ..Process::default() };
    metrics.set_process(&process);
    let text = metrics.write(&[], Format::Prometheus);
    for line in
        ["process_resident_memory_bytes 4096.0", "process_cpu_seconds_total 1.5", "process_open_fds NaN"]
    {
        assert!(text.lines().any(|l| l == line), "no {line} in\n{text}");
    }
    process.cpu_s = None;
    process.open_files = Some(7);
    metrics.set_process(&process);
    let text = metrics.write(&[], Format::Prometheus);
    assert!(text.contains("process_cpu_seconds_total 1.5\n") && text.contains("process_open_fds 7.0\n"));
}

#[test]
fn before_the_model_is_there() {
    let metrics = Metrics::new("1");
    metrics.model("m").record(ModelEvent::FirstToken { after: Duration::ZERO });
    let text = metrics.write(&[], Format::Prometheus);
    assert!(text.contains("gristmill_ready 0\n"));
    assert!(!text.contains("vllm:"));
}
