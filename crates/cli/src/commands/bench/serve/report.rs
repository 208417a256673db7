//! What is told of a run, and its JSON with the keys of `vllm bench serve`.

use serde_json::{Map, Value, json};

use super::metrics::{Figures, Latency, Metrics, Outcome};

/// A latency that can be chosen with `--percentile-metrics`.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    /// Time to first token.
    Ttft,
    /// Time per output token.
    Tpot,
    /// Gap between chunks.
    Itl,
    /// End-to-end latency.
    E2el,
    /// Time that --max-concurrency kept a request back.
    #[value(name = "client_queue_time")]
    ClientQueueTime,
}

impl Metric {
    /// The latencies of requests for embeddings, of those that were chosen: an answer comes whole.
    pub(super) fn of_embeddings(chosen: &[Metric]) -> Vec<Metric> {
        let has_one = |metric: &&Metric| matches!(metric, Metric::E2el | Metric::ClientQueueTime);
        let mut metrics: Vec<Metric> = chosen.iter().filter(has_one).copied().collect();
        if metrics.is_empty() {
            metrics.push(Metric::E2el);
        }
        metrics
    }

    pub(super) fn heading(self) -> &'static str {
        match self {
            Metric::Ttft => "Time to First Token",
            Metric::Tpot => "Time per Output Token (excl. 1st token)",
            Metric::Itl => "Inter-token Latency",
            Metric::E2el => "End-to-end Latency",
            Metric::ClientQueueTime => "Client-side Queueing",
        }
    }

    pub(super) fn label(self) -> &'static str {
        match self {
            Metric::Ttft => "TTFT",
            Metric::Tpot => "TPOT",
            Metric::Itl => "ITL",
            Metric::E2el => "E2EL",
            Metric::ClientQueueTime => "Client Queue Time",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Metric::Ttft => "ttft",
            Metric::Tpot => "tpot",
            Metric::Itl => "itl",
            Metric::E2el => "e2el",
            Metric::ClientQueueTime => "client_queue_time",
        }
    }

    pub(super) fn of(self, metrics: &Metrics) -> &Latency {
        match self {
            Metric::Ttft => &metrics.ttft,
            Metric::Tpot => &metrics.tpot,
            Metric::Itl => &metrics.itl,
            Metric::E2el => &metrics.e2el,
            Metric::ClientQueueTime => &metrics.queue,
        }
    }
}

/// What of the run is told.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    pub(super) metrics: Vec<Metric>,
    /// 0 to 100.
    pub(super) percentiles: Vec<f64>,
    pub(super) max_concurrency: Option<usize>,
    /// Infinite: none.
    pub(super) request_rate: f64,
}

/// What was run, in vLLM's keys and some more, for the top of the JSON.
pub(super) struct Setting {
    pub(super) date: String,
    pub(super) label: Option<String>,
    /// `openai`, `openai-chat` or `openai-embeddings`.
    pub(super) backend: &'static str,
    /// One or more.
    pub(super) models: Vec<String>,
    pub(super) tokenizer: Option<String>,
    pub(super) base_url: String,
    pub(super) dataset: &'static str,
    pub(super) num_prompts: usize,
    pub(super) seed: u64,
    pub(super) burstiness: f64,
}

impl Setting {
    /// The names of all models, with commas between them.
    pub(super) fn model(&self) -> String {
        self.models.join(",")
    }
}

/// The JSON of a run. `detailed` adds what there is one of for each request; without it only the totals are there, as in
/// vLLM without `--save-detailed`.
pub(super) fn json(
    setting: &Setting,
    selection: &Selection,
    figures: &Figures,
    outcomes: &[Outcome],
    detailed: bool,
) -> Value {
    let mut all = head(setting, selection);
    extend(&mut all, totals(&figures.total));
    if detailed {
        extend(&mut all, each(outcomes));
    }
    if detailed && !figures.by_model.is_empty() {
        let asked = outcomes.iter().filter_map(|o| setting.models.get(o.model));
        all.insert("model_ids".to_owned(), asked.cloned().collect());
    }
    let queues: Value = outcomes.iter().map(|o| o.queue).collect();
    all.insert("queue_times".to_owned(), queues);
    measured(&mut all, &figures.total, &selection.percentiles);
    if !figures.by_model.is_empty() {
        let models = setting.models.iter().zip(&figures.by_model);
        let models = models.map(|(name, metrics)| of_model(name, metrics, &selection.percentiles));
        all.insert("models".to_owned(), models.collect());
    }
    Value::Object(all)
}

/// The totals and latencies of one of several models.
fn of_model(name: &str, metrics: &Metrics, percentiles: &[f64]) -> Value {
    let mut one = Map::new();
    one.insert("model_id".to_owned(), name.into());
    one.insert("num_requests".to_owned(), (metrics.completed + metrics.failed).into());
    extend(&mut one, totals(metrics));
    measured(&mut one, metrics, percentiles);
    Value::Object(one)
}

fn totals(metrics: &Metrics) -> Value {
    let mut all = rates(metrics);
    if metrics.texts > 0 {
        all["total_texts"] = metrics.texts.into();
        all["text_throughput"] = metrics.rate(metrics.texts).into();
    }
    all
}

fn rates(metrics: &Metrics) -> Value {
    json!({
        "duration": metrics.duration,
        "completed": metrics.completed,
        "failed": metrics.failed,
        "total_input_tokens": metrics.input_tokens,
        "total_cached_tokens": metrics.cached_tokens,
        "total_output_tokens": metrics.output_tokens,
        "request_throughput": metrics.rate(metrics.completed),
        "request_goodput": metrics.good.map(|good| metrics.rate(good)),
        "output_throughput": metrics.rate(metrics.output_tokens),
        "total_token_throughput": metrics.rate(metrics.input_tokens + metrics.output_tokens),
    })
}

/// Peaks and latencies.
fn measured(all: &mut Map<String, Value>, metrics: &Metrics, percentiles: &[f64]) {
    let peaks = json!({
        "max_output_tokens_per_s": metrics.peak.chunks() as f64,
        "max_concurrent_requests": metrics.peak.requests,
    });
    extend(all, peaks);
    let latencies = [Metric::Ttft, Metric::Tpot, Metric::Itl, Metric::E2el, Metric::ClientQueueTime];
    for metric in latencies {
        latency(all, metric.key(), metric.of(metrics), percentiles);
    }
    latency(all, "first_text", &metrics.first_text, percentiles);
}

fn head(setting: &Setting, selection: &Selection) -> Map<String, Value> {
    let rate = selection.request_rate;
    let head = json!({
        "date": setting.date,
        "endpoint_type": setting.backend,
        "backend": setting.backend,
        "label": setting.label,
        "model_id": setting.model(),
        "tokenizer_id": setting.tokenizer,
        "base_url": setting.base_url,
        "dataset_name": setting.dataset,
        "num_prompts": setting.num_prompts,
        "seed": setting.seed,
        "request_rate": if rate.is_finite() { json!(rate) } else { json!("inf") },
        "burstiness": if setting.burstiness.is_finite() { json!(setting.burstiness) } else { json!("inf") },
        "max_concurrency": selection.max_concurrency,
    });
    let mut all = Map::new();
    extend(&mut all, head);
    all
}

/// One value a request, in the order in which the requests were made.
fn each(outcomes: &[Outcome]) -> Value {
    json!({
        "input_lens": outcomes.iter().map(|o| o.prompt_tokens).collect::<Vec<_>>(),
        "cached_lens": outcomes.iter().map(|o| o.cached_tokens).collect::<Vec<_>>(),
        "output_lens": outcomes.iter().map(|o| o.output_tokens).collect::<Vec<_>>(),
        "ttfts": outcomes.iter().map(|o| o.ttft).collect::<Vec<_>>(),
        "itls": outcomes.iter().map(|o| o.itls.as_slice()).collect::<Vec<_>>(),
        "latencies": outcomes.iter().map(|o| o.latency).collect::<Vec<_>>(),
        "start_times": outcomes.iter().map(|o| o.start).collect::<Vec<_>>(),
        "generated_texts": outcomes.iter().map(|o| o.text.as_str()).collect::<Vec<_>>(),
        "errors": outcomes.iter().map(|o| o.error.as_deref().unwrap_or("")).collect::<Vec<_>>(),
    })
}

fn latency(all: &mut Map<String, Value>, key: &str, latency: &Latency, percentiles: &[f64]) {
    all.insert(format!("mean_{key}_ms"), latency.mean_ms.into());
    all.insert(format!("median_{key}_ms"), latency.sorted_ms.median().into());
    all.insert(format!("std_{key}_ms"), latency.std_ms.into());
    for percent in percentiles {
        all.insert(format!("p{percent}_{key}_ms"), latency.sorted_ms.percentile(*percent).into());
    }
}

fn extend(all: &mut Map<String, Value>, more: Value) {
    if let Value::Object(more) = more {
        all.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(detailed: bool, models: usize) -> Value {
        let outcomes = [
            Outcome { output_tokens: 2, ttft: 0.5, itls: vec![0.5], latency: 1.0, ..Outcome::default() },
            Outcome { model: models - 1, error: Some("503: full".to_owned()), ..Outcome::default() },
        ];
        let figures = Figures::of(&outcomes, 2.0, None, models);
        let setting = Setting {
            date: "19700101-000000".to_owned(),
            label: None,
            backend: "openai",
            models: (0..models).map(|model| format!("m{model}")).collect(),
            tokenizer: None,
            base_url: "http://127.0.0.1:1".to_owned(),
            dataset: "random",
            num_prompts: 2,
            seed: 0,
            burstiness: 1.0,
        };
        let selection = Selection {
            metrics: vec![Metric::Ttft],
            percentiles: vec![50.0, 99.0],
            max_concurrency: None,
            request_rate: f64::INFINITY,
        };
        json(&setting, &selection, &figures, &outcomes, detailed)
    }

    /// The keys that vLLM writes with `--save-detailed`, as its `benchmark` and `main_async` list them.
    #[test]
    fn keys_are_vllms() {
        let json = written(true, 1);
        let keys = "date endpoint_type backend label model_id tokenizer_id num_prompts request_rate burstiness \
                    max_concurrency duration completed failed total_input_tokens total_output_tokens \
                    request_throughput request_goodput output_throughput total_token_throughput input_lens \
                    output_lens ttfts itls latencies start_times queue_times generated_texts errors \
                    max_output_tokens_per_s max_concurrent_requests mean_ttft_ms median_ttft_ms std_ttft_ms \
                    p50_ttft_ms p99_ttft_ms mean_tpot_ms p99_itl_ms p99_e2el_ms";
        for key in keys.split_whitespace() {
            assert!(json.get(key).is_some(), "{key} is missing");
        }
        assert_eq!(json["request_rate"], "inf");
        assert_eq!(json["request_goodput"], Value::Null);
        assert_eq!((&json["completed"], &json["failed"]), (&1.into(), &1.into()));
        assert_eq!(json["errors"], json!(["", "503: full"]));
        assert_eq!(json["itls"], json!([[0.5], []]));
        assert_eq!(
            (json["mean_tpot_ms"].as_f64(), json["output_throughput"].as_f64()),
            (Some(500.0), Some(1.0))
        );
        assert!(written(false, 1).get("ttfts").is_none());
        assert!(json.get("models").is_none() && json.get("model_ids").is_none());
    }

    #[test]
    fn each_model_has_its_figures() {
        let json = written(true, 2);
        assert_eq!((&json["model_id"], &json["completed"]), (&"m0,m1".into(), &1.into()));
        assert_eq!(json["model_ids"], json!(["m0", "m1"]));
        let [first, second] = [&json["models"][0], &json["models"][1]];
        assert_eq!(
            (&first["model_id"], &first["completed"], &first["failed"]),
            (&"m0".into(), &1.into(), &0.into())
        );
        assert_eq!((&second["completed"], &second["failed"]), (&0.into(), &1.into()));
        assert_eq!((&first["mean_tpot_ms"], &first["output_throughput"]), (&500.0.into(), &1.0.into()));
        assert!(written(false, 2).get("model_ids").is_none());
    }
}
