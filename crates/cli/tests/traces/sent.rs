//! What arrives, what does not, and that nobody waits for it.

#[path = "collector.rs"]
mod collector;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

use serde_json::Value;

use crate::support::served::{Server, answer, body, read};
use crate::support::{self, Tiny};
use collector::{Collector, text};

const PATH: &str = "/v1/completions";
const CALLER: &str =
    "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\ntracestate: mill=1,other=2\r\n";
const TRACE: u128 = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
const SOON: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "50");

/// The spans by their names, which are four.
fn by_name(spans: &[Span]) -> BTreeMap<&str, &Span> {
    spans.iter().map(|span| (span.name.as_str(), span)).collect()
}

fn number(span: &Span, key: &str) -> f64 {
    text(&span.attributes, key).unwrap_or_else(|| panic!("no {key}")).parse().unwrap()
}

#[test]
fn a_request_is_a_trace_that_its_caller_began() {
    let (tiny, collector) = (Tiny::new(), Collector::start());
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    std::fs::write(&keys, "geheim name=team-a\n").unwrap();
    let args = ["--otlp-endpoint", &collector.address, "--api-key-file", keys.to_str().unwrap()];
    let variables = [SOON, ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=mill"), ("OTEL_SERVICE_NAME", "stone")];
    let server = Server::start_among(&tiny, &args, &variables);
    let headers = format!("authorization: Bearer geheim\r\nx-request-id: it-is-me\r\n{CALLER}");
    let (status, said) = read(server.request_with("POST", PATH, &headers, &body(false).to_string()));
    assert_eq!(status, 200);
    let spans = collector.until(4);
    let spans = by_name(&spans);
    let root = spans["POST /v1/completions"];
    assert_eq!(root.kind, SpanKind::Server as i32);
    assert_eq!(root.trace_id, TRACE.to_be_bytes());
    assert_eq!(root.parent_span_id, 0x00f0_67aa_0ba9_02b7u64.to_be_bytes());
    assert_eq!(root.trace_state, "mill=1,other=2");
    assert_eq!(root.status.as_ref().map_or(0, |status| status.code), StatusCode::Unset as i32);
    let prompt_tokens = Tiny::prompt().len().to_string();
    for (key, value) in [
        ("http.request.method", "POST"),
        ("http.route", PATH),
        ("url.path", PATH),
        ("url.scheme", "http"),
        ("http.response.status_code", "200"),
        ("client.address", "127.0.0.1"),
        ("gen_ai.operation.name", "text_completion"),
        ("gen_ai.request.id", "it-is-me"),
        ("gen_ai.request.model", "tiny"),
        ("gen_ai.response.model", "tiny"),
        ("gen_ai.response.finish_reasons", "length"),
        ("gen_ai.usage.input_tokens", &prompt_tokens),
        ("gen_ai.usage.output_tokens", "60"),
    ] {
        assert_eq!(text(&root.attributes, key).as_deref(), Some(value), "{key}");
    }
    assert_eq!(text(&root.attributes, "error.type"), None);

    // Queue, prefill and decode follow one another inside the request, and are as long as its attributes say.
    let stages = ["queue", "prefill", "decode"].map(|name| spans[name]);
    for span in stages {
        assert_eq!((&span.trace_id, &span.parent_span_id), (&root.trace_id, &root.span_id));
        assert_eq!(span.kind, SpanKind::Internal as i32);
        assert!(root.start_time_unix_nano <= span.start_time_unix_nano, "{span:?}");
        assert!(span.end_time_unix_nano <= root.end_time_unix_nano, "{span:?}");
    }
    assert!(
        stages.windows(2).all(|two| two[0].end_time_unix_nano == two[1].start_time_unix_nano),
        "{stages:?}"
    );
    let seconds = |span: &Span| (span.end_time_unix_nano - span.start_time_unix_nano) as f64 / 1e9;
    for (span, key) in [
        (stages[0], "gen_ai.latency.time_in_queue"),
        (stages[1], "gen_ai.latency.time_in_model_prefill"),
        (stages[2], "gen_ai.latency.time_in_model_decode"),
        (root, "gen_ai.latency.e2e"),
    ] {
        assert!((seconds(span) - number(root, key)).abs() < 2e-6, "{key}: {span:?}");
    }
    assert!(seconds(stages[2]) > 0.0, "60 tokens take time");
    assert!(number(root, "gen_ai.latency.time_to_first_token") < number(root, "gen_ai.latency.e2e"));

    let batch = &collector.batches()[0];
    assert!(
        batch.head.starts_with("post /v1/traces ") && batch.head.contains("x-tenant: mill"),
        "{}",
        batch.head
    );
    assert!(batch.head.contains("content-type: application/x-protobuf"), "{}", batch.head);
    let resource = &batch.spans.resource.as_ref().unwrap().attributes;
    assert_eq!(text(resource, "service.name").as_deref(), Some("stone"));
    assert_eq!(text(resource, "service.version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
    // Neither the key nor any of the text, prompt or answer.
    let bytes = String::from_utf8_lossy(&batch.bytes);
    let letters: Vec<char> =
        answer(&said).chars().chain(support::characters(&Tiny::prompt()).chars()).collect();
    assert!(!bytes.contains("geheim") && !letters.iter().any(|letter| bytes.contains(*letter)), "{bytes}");
}

#[test]
fn who_sends_no_trace_begins_one_and_who_keeps_none_gets_none() {
    let (tiny, collector) = (Tiny::new(), Collector::start());
    let mut server = Server::start_among(&tiny, &["--otlp-endpoint", &collector.address], &[SOON]);
    let send = |headers: &str, body: &str| read(server.request_with("POST", PATH, headers, body)).0;
    let whole = body(true).to_string();
    assert_eq!(send("", &whole), 200);
    let first = collector.until(4);
    let root = by_name(&first)["POST /v1/completions"];
    assert!(root.parent_span_id.is_empty() && root.trace_id.iter().any(|byte| *byte > 0), "{root:?}");
    // A traceparent that is not as the standard says was not sent.
    assert_eq!(send(&CALLER.replace("4bf9", "4BF9"), &whole), 200);
    let second = &collector.until(8)[4..];
    let other = by_name(second)["POST /v1/completions"];
    assert!(
        other.parent_span_id.is_empty() && other.trace_state.is_empty() && other.trace_id != root.trace_id
    );
    // Its caller keeps nothing of this trace: neither do we.
    assert_eq!(send(&CALLER.replace("-01\r", "-00\r"), &whole), 200);
    // What a client did wrong is not this span's error; and it got no further.
    assert_eq!(send(CALLER, "{}"), 400);
    let last = &collector.until(9)[8];
    assert_eq!(text(&last.attributes, "http.response.status_code").as_deref(), Some("400"));
    assert_eq!(
        (last.trace_id.as_slice(), last.status.as_ref().map_or(0, |s| s.code)),
        (&TRACE.to_be_bytes()[..], 0)
    );
    for key in ["error.type", "gen_ai.request.model", "gen_ai.usage.input_tokens"] {
        assert_eq!(text(&last.attributes, key), None, "{key}");
    }
    // Health and metrics would bury the rest.
    assert_eq!(read(server.request_with("GET", "/health", "", "")).0, 200);
    assert!(server.stop().success());
    assert_eq!(collector.spans().len(), 9);
}

#[test]
fn what_the_server_did_wrong_is_an_error() {
    // The hub that has the model never answers.
    let hub = TcpListener::bind("127.0.0.1:0").unwrap();
    let hub = format!("http://{}", hub.local_addr().unwrap());
    let collector = Collector::start();
    let args = ["hf:some/model", "--otlp-endpoint", &collector.address];
    let server = Server::listen(&args, &[SOON, ("HF_ENDPOINT", &hub)]);
    assert_eq!(server.complete("").0, 503);
    let root = collector.until(1).remove(0);
    assert_eq!(text(&root.attributes, "error.type").as_deref(), Some("503"));
    assert_eq!(root.status.map(|status| status.code), Some(StatusCode::Error as i32));
}

#[test]
fn the_environment_alone_is_enough_and_the_last_spans_are_sent_at_the_end() {
    let (tiny, collector) = (Tiny::new(), Collector::start());
    let own = format!("{}/of/its/own", collector.address);
    let variables = [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", own.as_str()),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
        ("OTEL_BSP_SCHEDULE_DELAY", "3600000"),
    ];
    let variables = &variables[..];
    let mut server = Server::start_among(&tiny, &[], variables);
    assert_eq!(server.complete("").0, 200);
    assert!(collector.spans().is_empty());
    assert!(server.stop().success());
    assert_eq!(collector.spans().len(), 4);
    let batch = &collector.batches()[0];
    assert!(batch.head.starts_with("post /of/its/own "), "{}", batch.head);
    let resource = &batch.spans.resource.as_ref().unwrap().attributes;
    assert_eq!(text(resource, "service.name").as_deref(), Some("gristmill"));

    for off in [
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_TRACES_SAMPLER", "always_off"),
    ] {
        let mut server = Server::start_among(&tiny, &[], &[variables, &[off]].concat());
        assert_eq!(server.complete("").0, 200);
        assert!(server.stop().success());
        assert_eq!(collector.spans().len(), 4, "{off:?}");
    }
}

#[test]
fn a_collector_that_is_away_or_silent_changes_nothing() {
    let tiny = Tiny::new();
    let alone = answer(&Server::start(&tiny, &[]).complete("").1);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    let small = [SOON, ("OTEL_BSP_MAX_QUEUE_SIZE", "16"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "20000")];
    for endpoint in ["http://127.0.0.1:1", &silent] {
        let args = ["--otlp-endpoint", endpoint, "--log-format", "json"];
        let mut server = Server::start_among(&tiny, &args, &small);
        for _ in 0..12 {
            let (status, text) = server.complete("");
            assert_eq!((status, answer(&text)), (200, alone.clone()));
        }
        let began = Instant::now();
        assert!(server.stop().success());
        assert!(began.elapsed() < Duration::from_secs(10), "{endpoint}: {:?} to stop", began.elapsed());
        // Said now and at the end, and every span of the twelve requests is in what was said.
        let said = server.rest();
        let lines = said.lines().filter(|line| line.contains("traces are lost"));
        let lost: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        let sum = |field: &str| lost.iter().map(|line| line["fields"][field].as_u64().unwrap()).sum::<u64>();
        assert!((1..=2).contains(&lost.len()), "{said}");
        assert_eq!(sum("unsent") + 4 * sum("untraced"), 12 * 4, "{said}");
        assert!(sum("untraced") > 0, "sixteen spans have room at once: {said}");
    }
}

#[test]
fn what_cannot_be_used_is_said_at_the_start() {
    let collector = "http://localhost:4318";
    for (flag, variable, words) in [
        ("localhost:4318", ("A", "b"), "--otlp-endpoint: \"localhost:4318/v1/traces\" is no address"),
        ("grpc://localhost:4317", ("A", "b"), "is no address of a collector"),
        ("http://me:geheim@localhost", ("A", "b"), "OTEL_EXPORTER_OTLP_HEADERS"),
        (collector, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), "this server knows http/protobuf"),
        (collector, ("OTEL_TRACES_EXPORTER", "zipkin"), "this server knows otlp"),
        (collector, ("OTEL_TRACES_SAMPLER", "allways_on"), "always_on, always_off"),
        (collector, ("OTEL_TRACES_SAMPLER", "traceidratio"), "OTEL_TRACES_SAMPLER_ARG is \"\""),
        (collector, ("OTEL_BSP_MAX_QUEUE_SIZE", "4"), "between 16 and 65536"),
        (collector, ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"), "OTEL_EXPORTER_OTLP_TIMEOUT is \"10s\""),
        (collector, ("OTEL_EXPORTER_OTLP_COMPRESSION", "lzma"), "this server knows gzip, none"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let mut command = support::gristmill(home.path());
        command.args(["serve", "--check", "--otlp-endpoint", flag]).env(variable.0, variable.1);
        let line = support::failure(&command.output().unwrap(), 2);
        assert!(line.contains(words) && !line.contains("geheim"), "{line}");
    }
    let home = tempfile::tempdir().unwrap();
    let mut command = support::gristmill(home.path());
    command.args(["serve", "--check", "--otlp-endpoint", collector]);
    command.env("OTEL_TRACES_SAMPLER", "parentbased_traceidratio").env("OTEL_TRACES_SAMPLER_ARG", "0.01");
    assert!(support::said(&command.output().unwrap()).contains("flags and files are good"));
}
