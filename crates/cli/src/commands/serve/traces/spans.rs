//! A request's record as spans: one for the request, and below it one for each stage of its answers.
//!
//! Names are those of OpenTelemetry's conventions for HTTP servers and for generative models; latencies, which these do
//! not have, are named as vLLM names them.

use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt, TraceState,
};
use opentelemetry::{Array, Context, KeyValue, SpanId, StringValue, TraceFlags, TraceId, Value};
use opentelemetry_sdk::trace::SdkTracer;
use server::{Record, TraceParent};

/// A stage that a request's answers went through.
#[derive(Debug, PartialEq)]
pub(super) struct Phase {
    name: &'static str,
    /// Milliseconds since the request's head was read.
    from_ms: f64,
    to_ms: f64,
}

/// The wait for the first turn, the prompt up to the first token, and the tokens after it; as far as it got.
pub(super) fn phases(record: &Record) -> Vec<Phase> {
    let stages = record.stages;
    let Some(submitted) = stages.submitted_ms else { return Vec::new() };
    let end = stages.ended_ms.unwrap_or(record.duration_ms);
    let starts = [
        ("queue", Some(submitted)),
        ("prefill", stages.started_ms),
        // A token that came is sent before its answer ends.
        ("decode", record.first_token_ms.filter(|_| stages.started_ms.is_some())),
    ];
    let mut phases: Vec<Phase> = Vec::with_capacity(starts.len());
    for (name, from_ms) in starts.into_iter().filter_map(|(name, start)| Some((name, start?))) {
        if let Some(before) = phases.last_mut() {
            before.to_ms = from_ms.max(before.from_ms);
        }
        phases.push(Phase { name, from_ms, to_ms: end.max(from_ms) });
    }
    phases
}

/// Makes and ends the spans. False if the sampler wants none of this request.
pub(super) fn make(tracer: &SdkTracer, record: &Record, phases: &[Phase], scheme: &'static str) -> bool {
    let method = if record.method == "OTHER" { "HTTP" } else { record.method };
    let request = SpanBuilder::from_name(format!("{method} {}", record.path))
        .with_kind(SpanKind::Server)
        .with_start_time(record.at)
        .with_attributes(attributes(record, phases, scheme));
    let caller = record.parent.as_ref().map_or_else(Context::new, caller);
    let mut span = request.start_with_context(tracer, &caller);
    if !span.span_context().is_sampled() {
        return false;
    }
    if let Some((_, description)) = failure(record) {
        span.set_status(Status::error(description));
    }
    let inside = caller.with_span(span);
    for phase in phases {
        let span = SpanBuilder::from_name(phase.name).with_start_time(after(record.at, phase.from_ms));
        let mut span = span.start_with_context(tracer, &inside);
        span.end_with_timestamp(after(record.at, phase.to_ms));
    }
    inside.span().end_with_timestamp(after(record.at, record.duration_ms));
    true
}

fn caller(parent: &TraceParent) -> Context {
    let state: Option<TraceState> = parent.state.as_deref().and_then(|state| state.parse().ok());
    Context::new().with_remote_span_context(SpanContext::new(
        TraceId::from_bytes(parent.trace_id),
        SpanId::from_bytes(parent.span_id),
        TraceFlags::new(parent.flags),
        true,
        state.unwrap_or_default(),
    ))
}

fn after(at: SystemTime, ms: f64) -> SystemTime {
    at + Duration::from_secs_f64(ms / 1e3)
}

/// `error.type` and a description of what the server did wrong. What a client did wrong is no error of this span, says the
/// convention.
fn failure(record: &Record) -> Option<(String, &'static str)> {
    match record.status {
        500.. => Some((record.status.to_string(), "the server could not answer")),
        // The head of a stream was sent long before.
        ..400 if record.endings.contains(&"error") => {
            Some(("answer_failed".to_owned(), "an answer failed after its head was sent"))
        }
        _ => None,
    }
}

fn attributes(record: &Record, phases: &[Phase], scheme: &'static str) -> Vec<KeyValue> {
    let method = if record.method == "OTHER" { "_OTHER" } else { record.method };
    let mut all = vec![
        KeyValue::new("http.request.method", method),
        KeyValue::new("http.route", record.path),
        KeyValue::new("url.scheme", scheme),
        KeyValue::new("gen_ai.request.id", record.request_id.clone()),
    ];
    // Elsewhere the path has what a client put into it.
    if !record.path.contains('{') {
        all.push(KeyValue::new("url.path", record.path));
    }
    if record.status > 0 {
        all.push(KeyValue::new("http.response.status_code", i64::from(record.status)));
    }
    all.extend(record.peer.clone().map(|peer| KeyValue::new("client.address", peer)));
    all.extend(failure(record).map(|(kind, _)| KeyValue::new("error.type", kind)));
    if let Some(model) = &record.model {
        answers(&mut all, record, phases, model);
    }
    all
}

/// What is known of the answers of a model.
fn answers(all: &mut Vec<KeyValue>, record: &Record, phases: &[Phase], model: &str) {
    let operation = if record.path == "/v1/completions" { "text_completion" } else { "chat" };
    let endings = record.endings.iter().map(|ending| StringValue::from(*ending)).collect();
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let seconds = |ms: f64| ms / 1e3;
    all.extend([
        KeyValue::new("gen_ai.operation.name", operation),
        KeyValue::new("gen_ai.provider.name", "gristmill"),
        KeyValue::new("gen_ai.request.model", model.to_owned()),
        KeyValue::new("gen_ai.response.model", model.to_owned()),
        KeyValue::new("gen_ai.response.finish_reasons", Value::Array(Array::String(endings))),
        KeyValue::new("gen_ai.usage.input_tokens", count(record.prompt_tokens)),
        KeyValue::new("gen_ai.usage.cache_read.input_tokens", count(record.cached_tokens)),
        KeyValue::new("gen_ai.usage.output_tokens", count(record.completion_tokens)),
        KeyValue::new("gen_ai.latency.time_in_queue", seconds(record.queued_ms)),
        KeyValue::new("gen_ai.latency.e2e", seconds(record.duration_ms)),
        KeyValue::new("gristmill.machine_seconds", seconds(record.machine_ms)),
    ]);
    let first = record.first_token_ms.map(seconds);
    all.extend(first.map(|first| KeyValue::new("gen_ai.latency.time_to_first_token", first)));
    for phase in phases {
        let name = match phase.name {
            "prefill" => "gen_ai.latency.time_in_model_prefill",
            "decode" => "gen_ai.latency.time_in_model_decode",
            _ => continue,
        };
        all.push(KeyValue::new(name, seconds(phase.to_ms - phase.from_ms)));
    }
}
