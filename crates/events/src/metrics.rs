//! From events to numbers.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::encoding::text as encoding;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use crate::cost::{CostMetrics, HourlyPrice, MachineTime, TimeMetrics};
use crate::event::{Ending, Event, Gauges, Rejection};
use crate::llamacpp::LlamaCpp;
use crate::process::{Process, ProcessMetrics};
use crate::steps::StepMetrics;
use crate::{Format, buckets, text};

type Labels<const N: usize> = [(&'static str, &'static str); N];
type Share = Gauge<f64, AtomicU64>;

/// All metrics of a server. Those of the machine exist from the start, those of the model once it is there.
pub struct Metrics {
    machine: Machine,
    machine_registry: Registry,
    model: OnceLock<(Model, Registry)>,
    process: OnceLock<(ProcessMetrics, Registry)>,
    time: OnceLock<(TimeMetrics, Registry)>,
    cost: OnceLock<(CostMetrics, Registry)>,
    llamacpp: OnceLock<(LlamaCpp, Registry)>,
    /// One scrape at a time sets the gauges and writes them down.
    scrape: RwLock<()>,
}

struct Machine {
    ready: Gauge,
    load_seconds: Share,
    connections: Gauge,
    connections_refused: Counter,
    http: Family<Labels<3>, Counter>,
    http_seconds: Family<Labels<2>, Histogram>,
    http_seconds_fine: Histogram,
    rejected: Family<Labels<1>, Counter>,
}

struct Model {
    running: Gauge,
    waiting: Gauge,
    waiting_for_capacity: Gauge,
    waiting_tokens: Gauge,
    kv_usage: Share,
    preemptions: Counter,
    prefill_rows: Counter,
    prefix_queries: Counter,
    prefix_hits: Counter,
    kv_cached: Share,
    stall: Histogram,
    prompt_tokens: Counter,
    prompt_tokens_cached: Counter,
    prompt_tokens_by_source: Family<Labels<1>, Counter>,
    generation_tokens: Counter,
    success: Family<Labels<1>, Counter>,
    cancelled: Family<Labels<1>, Counter>,
    admission_rejections: Family<Labels<1>, Counter>,
    slow_readers: Counter,
    first_token: Histogram,
    inter_token: Histogram,
    per_output_token: Histogram,
    total: Histogram,
    queue: Histogram,
    inference: Histogram,
    prefill: Histogram,
    decode: Histogram,
    request_prompt_tokens: Histogram,
    request_generation_tokens: Histogram,
    request_max_tokens: Histogram,
    request_longest: Histogram,
    request_n: Histogram,
    request_preemptions: Histogram,
    request_computed: Histogram,
    iteration_tokens: Histogram,
    step: Histogram,
    steps: StepMetrics,
    weight_bytes: Counter,
    bandwidth: Share,
    bytes_per_token: Share,
    drafts: Counter,
    draft_tokens: Counter,
    accepted_tokens: Counter,
    /// The counter of each position, the first one first.
    accepted_at: [Counter; POSITIONS.len()],
}

/// vLLM's names of where a prompt's keys and values may come from; the third is of engines that share them.
const SOURCES: [&str; 3] = ["local_compute", "local_cache_hit", "external_kv_transfer"];
/// How far a request was when it was given up.
const STAGES: [&str; 3] = ["queue", "prefill", "decode"];

/// Places in a proposal, as labels.
const POSITIONS: [&str; 16] =
    ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"];

impl Metrics {
    /// The machine's metrics; `version` is the program's.
    pub fn new(version: &str) -> Metrics {
        let mut registry = Registry::default();
        let machine = Machine::new(&mut registry, version);
        Metrics {
            machine,
            machine_registry: registry,
            model: OnceLock::new(),
            process: OnceLock::new(),
            time: OnceLock::new(),
            cost: OnceLock::new(),
            llamacpp: OnceLock::new(),
            scrape: RwLock::new(()),
        }
    }

    /// Adds a model's metrics, all at zero. `name` becomes the label `model_name`; `context` is in tokens and bounds
    /// the buckets of token counts. Once only; a second call changes nothing.
    pub fn add_model(&self, name: &str, context: usize, kv_blocks: usize, kv_block_tokens: usize) {
        self.model.get_or_init(|| {
            let label = |k: &'static str, v: String| (Cow::Borrowed(k), Cow::Owned(v));
            let labels = [label("model_name", text::escape(name)), label("engine", "0".into())];
            let mut registry = Registry::with_labels(labels.into_iter());
            let model = Model::new(&mut registry, context, kv_blocks, kv_block_tokens);
            (model, registry)
        });
    }

    /// Counts an event.
    pub fn record(&self, event: Event) {
        self.machine.record(event);
        if let Some((model, _)) = self.model.get() {
            model.record(event);
        }
        if let Some((llamacpp, _)) = self.llamacpp.get() {
            llamacpp.record(&event);
        }
    }

    /// Tells the model's numbers under llama-server's names too, from now on.
    pub fn offer_llamacpp(&self) {
        self.llamacpp.get_or_init(|| {
            let mut registry = Registry::default();
            (LlamaCpp::new(&mut registry), registry)
        });
    }

    /// What the operating system says now of the process; its metrics exist from the first call on.
    pub fn set_process(&self, process: &Process) {
        let (metrics, _) = self.process.get_or_init(|| {
            let mut registry = Registry::default();
            (ProcessMetrics::new(&mut registry), registry)
        });
        metrics.set(process);
    }

    /// Tells what the machine's time costs too, from now on. Once only; a second price changes nothing.
    pub fn add_price(&self, price: HourlyPrice<'_>) {
        self.cost.get_or_init(|| CostMetrics::new(price));
    }

    /// For what the machine's time went so far; its metrics exist from the first call on.
    pub fn set_time(&self, time: &MachineTime) {
        let (metrics, _) = self.time.get_or_init(|| {
            let mut registry = Registry::default();
            (TimeMetrics::new(&mut registry), registry)
        });
        metrics.set(time);
        if let Some((cost, _)) = self.cost.get() {
            cost.set(time);
        }
    }

    /// Everything as text, with the gauges of now.
    pub fn write(&self, gauges: Option<&Gauges>, format: Format) -> String {
        let _one = self.scrape.write().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::with_capacity(32 << 10);
        let mut done = encoding::encode_registry(&mut out, &self.machine_registry);
        if let Some((_, registry)) = self.process.get() {
            done = done.and_then(|()| encoding::encode_registry(&mut out, registry));
        }
        for registry in
            [self.time.get().map(|(_, r)| r), self.cost.get().map(|(_, r)| r)].into_iter().flatten()
        {
            done = done.and_then(|()| encoding::encode_registry(&mut out, registry));
        }
        if let Some((model, registry)) = self.model.get() {
            if let Some(gauges) = gauges {
                model.set(gauges);
            }
            done = done.and_then(|()| encoding::encode_registry(&mut out, registry));
        }
        if let Some((llamacpp, registry)) = self.llamacpp.get() {
            if let Some(gauges) = gauges {
                llamacpp.set(gauges);
            }
            done = done.and_then(|()| encoding::encode_registry(&mut out, registry));
        }
        done.and_then(|()| encoding::encode_eof(&mut out)).expect("writing to a String does not fail");
        match format {
            Format::OpenMetrics => out,
            Format::Prometheus => text::to_prometheus(&out),
        }
    }
}

/// Registers a metric and hands it back; the registry's copy shares its numbers.
fn add<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

fn histogram(registry: &mut Registry, name: &str, help: &str, buckets: &[f64]) -> Histogram {
    add(registry, name, help, Histogram::new(buckets.iter().copied()))
}

impl Machine {
    fn new(r: &mut Registry, version: &str) -> Machine {
        let build = Family::<Vec<(&'static str, String)>, Gauge>::default();
        build.get_or_create(&vec![("version", text::escape(version))]).set(1);
        r.register("gristmill_build_info", "The program's version, as a label", build);
        let rejected = Family::<Labels<1>, Counter>::default();
        for reason in Rejection::ALL {
            let _ = rejected.get_or_create_owned(&[("reason", reason.name())]);
        }
        let seconds = Family::new_with_constructor((|| Histogram::new(buckets::HTTP_S)) as fn() -> Histogram);
        Machine {
            ready: add(
                r,
                "gristmill_ready",
                "1 when the model is loaded and requests are taken",
                Gauge::default(),
            ),
            load_seconds: add(
                r,
                "gristmill_load_seconds",
                "Seconds from the start of the process to ready",
                Share::default(),
            ),
            connections: add(r, "gristmill_connections", "Open connections", Gauge::default()),
            connections_refused: add(
                r,
                "gristmill_connections_refused",
                "Connections turned away because as many were open as are allowed",
                Counter::default(),
            ),
            http: add(
                r,
                "http_requests",
                "HTTP requests by status, method and handler",
                Family::<Labels<3>, Counter>::default(),
            ),
            http_seconds: add(
                r,
                "http_request_duration_seconds",
                "Duration of HTTP requests by handler",
                seconds,
            ),
            http_seconds_fine: histogram(
                r,
                "http_request_duration_highr_seconds",
                "Duration of HTTP requests, finer",
                &buckets::HTTP_FINE_S,
            ),
            rejected: add(r, "gristmill_requests_rejected", "Requests turned away, by reason", rejected),
        }
    }

    fn record(&self, event: Event) {
        match event {
            Event::Ready { after } => {
                self.ready.set(1);
                self.load_seconds.set(after.as_secs_f64());
            }
            Event::HttpAnswered { handler, method, status, took } => {
                let status = status_class(status);
                self.http
                    .get_or_create(&[("handler", handler), ("status", status), ("method", method)])
                    .inc();
                self.http_seconds
                    .get_or_create(&[("handler", handler), ("method", method)])
                    .observe(took.as_secs_f64());
                self.http_seconds_fine.observe(took.as_secs_f64());
            }
            Event::Connected => _ = self.connections.inc(),
            Event::Disconnected => _ = self.connections.dec(),
            Event::ConnectionRefused => _ = self.connections_refused.inc(),
            Event::Draining => _ = self.ready.set(0),
            Event::Rejected(reason) => _ = self.rejected.get_or_create(&[("reason", reason.name())]).inc(),
            Event::SlowReader
            | Event::FirstToken { .. }
            | Event::NextToken { .. }
            | Event::Step { .. }
            | Event::Verified { .. }
            | Event::Finished { .. }
            | Event::GroupFinished { .. } => {}
        }
    }
}

/// As prometheus-fastapi-instrumentator groups them, which is what vLLM's dashboards expect.
fn status_class(status: u16) -> &'static str {
    match status {
        100..200 => "1xx",
        200..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        _ => "5xx",
    }
}

impl Model {
    fn new(r: &mut Registry, context: usize, kv_blocks: usize, kv_block_tokens: usize) -> Model {
        let tokens = buckets::one_two_five(context);
        let waiting_by_reason = Family::<Labels<1>, Gauge>::default();
        let waiting_for_capacity = waiting_by_reason.get_or_create_owned(&[("reason", "capacity")]);
        let _ = waiting_by_reason.get_or_create_owned(&[("reason", "deferred")]);
        let success = Family::<Labels<1>, Counter>::default();
        for ending in Ending::ALL {
            let _ = success.get_or_create_owned(&[("finished_reason", ending.name())]);
        }
        let rejections = Family::<Labels<1>, Counter>::default();
        for reason in Rejection::ALL.into_iter().filter(|r| r.is_admission()) {
            let _ = rejections.get_or_create_owned(&[("reason", reason.name())]);
        }
        let sources = Family::<Labels<1>, Counter>::default();
        for source in SOURCES {
            let _ = sources.get_or_create_owned(&[("source", source)]);
        }
        let cancelled = Family::<Labels<1>, Counter>::default();
        for stage in STAGES {
            let _ = cancelled.get_or_create_owned(&[("stage", stage)]);
        }
        let cache = Family::<Vec<(&'static str, String)>, Gauge>::default();
        let shape =
            vec![("block_size", kv_block_tokens.to_string()), ("num_gpu_blocks", kv_blocks.to_string())];
        cache.get_or_create(&shape).set(1);
        r.register("vllm:cache_config_info", "The KV cache's shape, as labels", cache);
        let accepted_per_pos = Family::<Labels<1>, Counter>::default();
        let accepted_help = "Accepted tokens by their place in the proposal";
        let name = "vllm:spec_decode_num_accepted_tokens_per_pos";
        add(r, name, accepted_help, accepted_per_pos.clone());
        let waiting_help = "Requests waiting, by reason";
        add(r, "vllm:num_requests_waiting_by_reason", waiting_help, waiting_by_reason);
        Model {
            waiting_for_capacity,
            running: add(r, "vllm:num_requests_running", "Requests being computed", Gauge::default()),
            waiting: add(r, "vllm:num_requests_waiting", "Requests waiting to be computed", Gauge::default()),
            waiting_tokens: add(
                r,
                "gristmill_waiting_tokens",
                "Prompt tokens waiting to be computed",
                Gauge::default(),
            ),
            kv_usage: add(r, "vllm:kv_cache_usage_perc", "KV cache in use; 1 is all of it", Share::default()),
            preemptions: add(
                r,
                "vllm:num_preemptions",
                "Times a request lost its KV blocks",
                Counter::default(),
            ),
            prefix_queries: add(
                r,
                "vllm:prefix_cache_queries",
                "Prompt tokens looked up in the prefix cache",
                Counter::default(),
            ),
            prefix_hits: add(
                r,
                "vllm:prefix_cache_hits",
                "Prompt tokens found in the prefix cache",
                Counter::default(),
            ),
            kv_cached: add(
                r,
                "gristmill_kv_cache_kept_perc",
                "KV cache that no request holds and that is kept for equal prefixes; 1 is all of it",
                Share::default(),
            ),
            stall: histogram(
                r,
                "gristmill_stall_seconds",
                "Seconds of steps in which answers waited for prompts beside them",
                &buckets::STEP_S,
            ),
            prefill_rows: add(
                r,
                "gristmill_prefill_rows",
                "Prompt rows computed, those computed again after a preemption included",
                Counter::default(),
            ),
            prompt_tokens: add(r, "vllm:prompt_tokens", "Prompt tokens processed", Counter::default()),
            prompt_tokens_cached: add(
                r,
                "vllm:prompt_tokens_cached",
                "Prompt tokens that did not have to be computed",
                Counter::default(),
            ),
            prompt_tokens_by_source: add(
                r,
                "vllm:prompt_tokens_by_source",
                "Prompt tokens by where their keys and values came from",
                sources,
            ),
            generation_tokens: add(r, "vllm:generation_tokens", "Tokens generated", Counter::default()),
            success: add(r, "vllm:request_success", "Answers ended, by reason", success),
            cancelled: add(
                r,
                "gristmill_requests_cancelled",
                "Answers given up before their end, by how far they were",
                cancelled,
            ),
            admission_rejections: add(
                r,
                "vllm:admission_rejections",
                "Requests turned away because the queue was full",
                rejections,
            ),
            slow_readers: add(
                r,
                "gristmill_slow_readers",
                "Streams cut off because their reader fell too far behind",
                Counter::default(),
            ),
            first_token: histogram(
                r,
                "vllm:time_to_first_token_seconds",
                "Seconds from arrival to the first token",
                &buckets::FIRST_TOKEN_S,
            ),
            inter_token: histogram(
                r,
                "vllm:inter_token_latency_seconds",
                "Seconds between two tokens of an answer",
                &buckets::TOKEN_S,
            ),
            per_output_token: histogram(
                r,
                "vllm:request_time_per_output_token_seconds",
                "Mean seconds a token of an answer, the first left out",
                &buckets::TOKEN_S,
            ),
            total: histogram(
                r,
                "vllm:e2e_request_latency_seconds",
                "Seconds from arrival to the end",
                &buckets::REQUEST_S,
            ),
            queue: histogram(
                r,
                "vllm:request_queue_time_seconds",
                "Seconds spent waiting",
                &buckets::REQUEST_S,
            ),
            inference: histogram(
                r,
                "vllm:request_inference_time_seconds",
                "Seconds spent being computed",
                &buckets::REQUEST_S,
            ),
            prefill: histogram(
                r,
                "vllm:request_prefill_time_seconds",
                "Seconds from the first row to the first token",
                &buckets::REQUEST_S,
            ),
            decode: histogram(
                r,
                "vllm:request_decode_time_seconds",
                "Seconds from the first token to the last",
                &buckets::REQUEST_S,
            ),
            request_prompt_tokens: histogram(r, "vllm:request_prompt_tokens", "Tokens of a prompt", &tokens),
            request_generation_tokens: histogram(
                r,
                "vllm:request_generation_tokens",
                "Tokens of an answer",
                &tokens,
            ),
            request_max_tokens: histogram(
                r,
                "vllm:request_params_max_tokens",
                "max_tokens of a request that set it",
                &tokens,
            ),
            request_longest: histogram(
                r,
                "vllm:request_max_num_generation_tokens",
                "Tokens of the longest answer to a prompt",
                &tokens,
            ),
            request_n: histogram(r, "vllm:request_params_n", "Answers asked for", &buckets::N),
            request_preemptions: histogram(
                r,
                "vllm:request_num_preemptions",
                "Preemptions of a request",
                &buckets::PREEMPTIONS,
            ),
            request_computed: histogram(
                r,
                "vllm:request_prefill_kv_computed_tokens",
                "Prompt tokens of a request that had to be computed",
                &tokens,
            ),
            iteration_tokens: histogram(
                r,
                "vllm:iteration_tokens_total",
                "Tokens computed in a step",
                &buckets::ITERATION_TOKENS,
            ),
            step: histogram(r, "gristmill_step_seconds", "Seconds a step took", &buckets::STEP_S),
            steps: StepMetrics::new(r),
            weight_bytes: add(
                r,
                "gristmill_weight_read_bytes",
                "Bytes of weights that steps read: each weight once a step, of experts as many as its rows use",
                Counter::default(),
            ),
            bandwidth: add(
                r,
                "gristmill_weight_read_bytes_per_second",
                "Bytes of weights that the last step read, over its time",
                Share::default(),
            ),
            bytes_per_token: add(
                r,
                "gristmill_weight_read_bytes_per_token",
                "Bytes of weights that the last step with answer tokens read, over these",
                Share::default(),
            ),
            drafts: add(
                r,
                "vllm:spec_decode_num_drafts",
                "Times that tokens were proposed ahead of the model",
                Counter::default(),
            ),
            draft_tokens: add(
                r,
                "vllm:spec_decode_num_draft_tokens",
                "Tokens proposed ahead of the model",
                Counter::default(),
            ),
            accepted_tokens: add(
                r,
                "vllm:spec_decode_num_accepted_tokens",
                "Proposed tokens that were what the model said",
                Counter::default(),
            ),
            accepted_at: POSITIONS
                .map(|position| accepted_per_pos.get_or_create_owned(&[("position", position)])),
        }
    }

    fn set(&self, gauges: &Gauges) {
        let whole = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.running.set(whole(gauges.running));
        self.waiting.set(whole(gauges.waiting));
        self.waiting_for_capacity.set(whole(gauges.waiting));
        self.waiting_tokens.set(whole(gauges.waiting_tokens));
        self.kv_usage.set(gauges.kv_blocks_used as f64 / gauges.kv_blocks_total.max(1) as f64);
        self.preemptions.inner().store(gauges.preemptions, Ordering::Relaxed);
        self.prefix_queries.inner().store(gauges.prefix_queries, Ordering::Relaxed);
        self.prefix_hits.inner().store(gauges.prefix_hits, Ordering::Relaxed);
        self.kv_cached.set(gauges.kv_blocks_cached as f64 / gauges.kv_blocks_total.max(1) as f64);
        self.prefill_rows.inner().store(gauges.prefill_rows, Ordering::Relaxed);
    }

    fn record(&self, event: Event) {
        match event {
            Event::FirstToken { after } => {
                self.first_token.observe(after.as_secs_f64());
                self.generation_tokens.inc();
            }
            Event::NextToken { after } => {
                self.inter_token.observe(after.as_secs_f64());
                self.generation_tokens.inc();
            }
            Event::Step { rows, mixed, decoded, weight_bytes, took } => {
                if mixed {
                    self.stall.observe(took.as_secs_f64());
                }
                self.iteration_tokens.observe(rows as f64);
                self.step.observe(took.as_secs_f64());
                self.steps.record(rows, took);
                self.read(weight_bytes, decoded, took);
            }
            Event::Verified { proposed, accepted } => {
                self.drafts.inc();
                self.draft_tokens.inc_by(proposed as u64);
                self.accepted_tokens.inc_by(accepted as u64);
                self.accepted_at.iter().take(accepted).for_each(|counter| _ = counter.inc());
            }
            Event::Finished { .. } => self.finished(event),
            Event::GroupFinished { n, longest_tokens } => {
                self.request_n.observe(n as f64);
                self.request_longest.observe(longest_tokens as f64);
            }
            Event::Rejected(reason) if reason.is_admission() => {
                self.admission_rejections.get_or_create(&[("reason", reason.name())]).inc();
            }
            Event::SlowReader => _ = self.slow_readers.inc(),
            Event::Rejected(_)
            | Event::Ready { .. }
            | Event::Draining
            | Event::HttpAnswered { .. }
            | Event::Connected
            | Event::Disconnected
            | Event::ConnectionRefused => {}
        }
    }

    fn read(&self, weight_bytes: u64, decoded: usize, took: Duration) {
        if weight_bytes == 0 {
            return;
        }
        self.weight_bytes.inc_by(weight_bytes);
        if !took.is_zero() {
            self.bandwidth.set(weight_bytes as f64 / took.as_secs_f64());
        }
        if decoded > 0 {
            self.bytes_per_token.set(weight_bytes as f64 / decoded as f64);
        }
    }

    fn finished(&self, event: Event) {
        let Event::Finished {
            ending,
            prompt_tokens,
            cached_tokens,
            generated_tokens,
            max_tokens,
            total,
            queued,
            prefill,
            decode,
            preemptions,
        } = event
        else {
            return;
        };
        let seconds = |histogram: &Histogram, d: Duration| histogram.observe(d.as_secs_f64());
        self.success.get_or_create(&[("finished_reason", ending.name())]).inc();
        if ending == Ending::Abort {
            let stage = match (generated_tokens, prefill) {
                (1.., _) => "decode",
                (0, Duration::ZERO) => "queue",
                (0, _) => "prefill",
            };
            self.cancelled.get_or_create(&[("stage", stage)]).inc();
        }
        seconds(&self.total, total);
        seconds(&self.queue, queued);
        seconds(&self.prefill, prefill);
        seconds(&self.decode, decode);
        seconds(&self.inference, prefill + decode);
        self.request_prompt_tokens.observe(prompt_tokens as f64);
        self.request_generation_tokens.observe(generated_tokens as f64);
        self.request_computed.observe(prompt_tokens.saturating_sub(cached_tokens) as f64);
        self.request_preemptions.observe(preemptions as f64);
        if generated_tokens > 0 {
            self.prompt_tokens.inc_by(prompt_tokens as u64);
            self.prompt_tokens_cached.inc_by(cached_tokens as u64);
            let computed = prompt_tokens.saturating_sub(cached_tokens);
            for (source, tokens) in SOURCES.into_iter().zip([computed, cached_tokens]) {
                self.prompt_tokens_by_source.get_or_create(&[("source", source)]).inc_by(tokens as u64);
            }
        }
        if generated_tokens > 1 {
            self.per_output_token.observe(decode.as_secs_f64() / (generated_tokens - 1) as f64);
        }
        if let Some(max) = max_tokens {
            self.request_max_tokens.observe(max as f64);
        }
    }
}
