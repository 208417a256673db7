//! The same numbers once more under llama-server's names, for what was made to watch it, over all models. Off unless
//! asked for.
//!
//! `llamacpp:n_busy_slots_per_decode` is absent: there are no slots here.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};

use crate::event::{Gauges, ModelEvent};

type Seconds = Counter<f64, AtomicU64>;
type Value = Gauge<f64, AtomicU64>;

pub(crate) struct LlamaCpp {
    prompt_tokens: Counter,
    prompt_tokens_cached: Counter,
    prompt_seconds: Seconds,
    predicted_tokens: Counter,
    predicted_seconds: Seconds,
    steps: Counter,
    longest: Gauge,
    prompt_speed: Value,
    predicted_speed: Value,
    processing: Gauge,
    deferred: Gauge,
}

impl LlamaCpp {
    pub(crate) fn new(r: &mut Registry) -> LlamaCpp {
        fn add<M: Metric + Clone + Default>(r: &mut Registry, name: &str, help: &str) -> M {
            let metric = M::default();
            r.register(format!("llamacpp:{name}"), help, metric.clone());
            metric
        }
        LlamaCpp {
            prompt_tokens: add(r, "prompt_tokens", "Prompt tokens computed"),
            prompt_tokens_cached: add(
                r,
                "prompt_tokens_cached",
                "Prompt tokens that did not have to be computed",
            ),
            prompt_seconds: add(r, "prompt_seconds", "Seconds spent on prompts"),
            predicted_tokens: add(r, "tokens_predicted", "Tokens generated"),
            predicted_seconds: add(r, "tokens_predicted_seconds", "Seconds spent on generating"),
            steps: add(r, "n_decode", "Steps of the engine"),
            longest: add(r, "n_tokens_max", "Tokens of the longest prompt and answer together"),
            prompt_speed: add(r, "prompt_tokens_seconds", "Prompt tokens a second, over all so far"),
            predicted_speed: add(
                r,
                "predicted_tokens_seconds",
                "Generated tokens a second of one answer, over all so far",
            ),
            processing: add(r, "requests_processing", "Requests being computed"),
            deferred: add(r, "requests_deferred", "Requests waiting"),
        }
    }

    /// The sums over all models.
    pub(crate) fn set<'a>(&self, models: impl Iterator<Item = &'a Gauges>) {
        let whole = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let (running, waiting) = models.fold((0, 0), |(r, w), one| (r + one.running, w + one.waiting));
        self.processing.set(whole(running));
        self.deferred.set(whole(waiting));
    }

    pub(crate) fn record(&self, event: &ModelEvent) {
        if matches!(event, ModelEvent::Step { .. }) {
            self.steps.inc();
        }
        let ModelEvent::Finished { prompt_tokens, cached_tokens, generated_tokens, prefill, decode, .. } =
            *event
        else {
            return;
        };
        if generated_tokens == 0 {
            return;
        }
        self.prompt_tokens.inc_by(prompt_tokens.saturating_sub(cached_tokens) as u64);
        self.prompt_tokens_cached.inc_by(cached_tokens as u64);
        self.prompt_seconds.inc_by(prefill.as_secs_f64());
        self.predicted_tokens.inc_by(generated_tokens as u64);
        self.predicted_seconds.inc_by(decode.as_secs_f64());
        let tokens = i64::try_from(prompt_tokens + generated_tokens).unwrap_or(i64::MAX);
        self.longest.inner().fetch_max(tokens, Ordering::Relaxed);
        let speed = |tokens: &Counter, seconds: &Seconds| tokens.get() as f64 / seconds.get().max(1e-9);
        self.prompt_speed.set(speed(&self.prompt_tokens, &self.prompt_seconds));
        self.predicted_speed.set(speed(&self.predicted_tokens, &self.predicted_seconds));
    }
}
