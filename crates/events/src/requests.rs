//! Requests to a model: their tokens, their times, and how they ended.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;

use crate::buckets;
use crate::event::{Ending, ModelEvent, Rejection};
use crate::family::ModelFamilies;
use crate::histogram::Histogram;

/// vLLM's names of where a prompt's keys and values may come from; the third is of engines that share them.
const SOURCES: [&str; 3] = ["local_compute", "local_cache_hit", "external_kv_transfer"];
/// How far a request was when it was given up.
const STAGES: [&str; 3] = ["queue", "prefill", "decode"];
/// Rejections that vLLM counts under its own name too.
const ADMISSION: [Rejection; 2] = [Rejection::QueuedRequests, Rejection::QueuedTokens];

pub(crate) struct RequestMetrics {
    counts: Counts,
    times: Times,
    sizes: Sizes,
}

struct Counts {
    prompt_tokens: Counter,
    prompt_tokens_cached: Counter,
    /// As [`SOURCES`].
    prompt_tokens_by_source: [Counter; SOURCES.len()],
    generation_tokens: Counter,
    /// As [`Ending::ALL`].
    success: [Counter; Ending::ALL.len()],
    /// As [`STAGES`].
    cancelled: [Counter; STAGES.len()],
    /// As [`ADMISSION`].
    admission_rejections: [Counter; ADMISSION.len()],
    slow_readers: Counter,
}

/// Seconds.
struct Times {
    first_token: Histogram,
    inter_token: Histogram,
    per_output_token: Histogram,
    total: Histogram,
    queue: Histogram,
    inference: Histogram,
    prefill: Histogram,
    decode: Histogram,
}

struct Sizes {
    prompt_tokens: Histogram,
    generation_tokens: Histogram,
    max_tokens: Histogram,
    longest: Histogram,
    n: Histogram,
    preemptions: Histogram,
    computed: Histogram,
}

impl RequestMetrics {
    /// All at zero; `context` is in tokens and bounds the buckets of token counts.
    pub(crate) fn new(families: &mut ModelFamilies, context: usize) -> RequestMetrics {
        RequestMetrics {
            counts: Counts::new(families),
            times: Times::new(families),
            sizes: Sizes::new(families, context),
        }
    }

    pub(crate) fn first_token(&self, after: Duration) {
        self.times.first_token.observe(after.as_secs_f64());
        self.counts.generation_tokens.inc();
    }

    pub(crate) fn next_token(&self, after: Duration) {
        self.times.inter_token.observe(after.as_secs_f64());
        self.counts.generation_tokens.inc();
    }

    pub(crate) fn rejected(&self, reason: Rejection) {
        let counters = ADMISSION.iter().zip(&self.counts.admission_rejections);
        counters.filter(|(of, _)| **of == reason).for_each(|(_, counter)| _ = counter.inc());
    }

    pub(crate) fn slow_reader(&self) {
        self.counts.slow_readers.inc();
    }

    pub(crate) fn group_finished(&self, n: usize, longest_tokens: usize) {
        self.sizes.n.observe(n as f64);
        self.sizes.longest.observe(longest_tokens as f64);
    }

    /// Counts a [`ModelEvent::Finished`]; nothing else.
    pub(crate) fn finished(&self, event: &ModelEvent) {
        let ModelEvent::Finished {
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
        } = *event
        else {
            return;
        };
        self.counts.ended(ending, generated_tokens, prefill);
        let computed = prompt_tokens.saturating_sub(cached_tokens);
        if generated_tokens > 0 {
            self.counts.prompt(prompt_tokens, cached_tokens, computed);
        }
        let Times { total: whole, queue, inference, prefill: prefills, decode: decodes, .. } = &self.times;
        let seconds = [
            (whole, total),
            (queue, queued),
            (inference, prefill + decode),
            (prefills, prefill),
            (decodes, decode),
        ];
        seconds.into_iter().for_each(|(histogram, time)| histogram.observe(time.as_secs_f64()));
        if generated_tokens > 1 {
            let each = decode.as_secs_f64() / (generated_tokens - 1) as f64;
            self.times.per_output_token.observe(each);
        }
        self.sizes.prompt_tokens.observe(prompt_tokens as f64);
        self.sizes.generation_tokens.observe(generated_tokens as f64);
        self.sizes.computed.observe(computed as f64);
        self.sizes.preemptions.observe(preemptions as f64);
        if let Some(max) = max_tokens {
            self.sizes.max_tokens.observe(max as f64);
        }
    }
}

impl Counts {
    fn new(f: &mut ModelFamilies) -> Counts {
        let count = |f: &mut ModelFamilies, name, help| f.add(name, help, Counter::default());
        Counts {
            prompt_tokens: count(f, "vllm:prompt_tokens", "Prompt tokens processed"),
            prompt_tokens_cached: count(
                f,
                "vllm:prompt_tokens_cached",
                "Prompt tokens that did not have to be computed",
            ),
            prompt_tokens_by_source: f.add_by(
                "vllm:prompt_tokens_by_source",
                "Prompt tokens by where their keys and values came from",
                "source",
                SOURCES,
            ),
            generation_tokens: count(f, "vllm:generation_tokens", "Tokens generated"),
            success: f.add_by(
                "vllm:request_success",
                "Answers ended, by reason",
                "finished_reason",
                Ending::ALL.map(Ending::name),
            ),
            cancelled: f.add_by(
                "gristmill_requests_cancelled",
                "Answers given up before their end, by how far they were",
                "stage",
                STAGES,
            ),
            admission_rejections: f.add_by(
                "vllm:admission_rejections",
                "Requests turned away because the queue was full",
                "reason",
                ADMISSION.map(Rejection::name),
            ),
            slow_readers: count(
                f,
                "gristmill_slow_readers",
                "Streams cut off because their reader fell too far behind",
            ),
        }
    }

    fn ended(&self, ending: Ending, generated_tokens: usize, prefill: Duration) {
        let counters = Ending::ALL.into_iter().zip(&self.success);
        counters.filter(|(of, _)| *of == ending).for_each(|(_, counter)| _ = counter.inc());
        if ending == Ending::Abort {
            let [queue, in_prefill, decode] = &self.cancelled;
            let stage = match (generated_tokens, prefill) {
                (1.., _) => decode,
                (0, Duration::ZERO) => queue,
                (0, _) => in_prefill,
            };
            stage.inc();
        }
    }

    fn prompt(&self, tokens: usize, cached: usize, computed: usize) {
        self.prompt_tokens.inc_by(tokens as u64);
        self.prompt_tokens_cached.inc_by(cached as u64);
        let sources = self.prompt_tokens_by_source.iter().zip([computed, cached]);
        sources.for_each(|(counter, tokens)| _ = counter.inc_by(tokens as u64));
    }
}

impl Times {
    fn new(f: &mut ModelFamilies) -> Times {
        let mut add = |name, help, buckets: &[f64]| f.add(name, help, Histogram::new(buckets));
        Times {
            first_token: add(
                "vllm:time_to_first_token_seconds",
                "Seconds from arrival to the first token",
                &buckets::FIRST_TOKEN_S,
            ),
            inter_token: add(
                "vllm:inter_token_latency_seconds",
                "Seconds between two tokens of an answer",
                &buckets::TOKEN_S,
            ),
            per_output_token: add(
                "vllm:request_time_per_output_token_seconds",
                "Mean seconds a token of an answer, the first left out",
                &buckets::TOKEN_S,
            ),
            total: add(
                "vllm:e2e_request_latency_seconds",
                "Seconds from arrival to the end",
                &buckets::REQUEST_S,
            ),
            queue: add("vllm:request_queue_time_seconds", "Seconds spent waiting", &buckets::REQUEST_S),
            inference: add(
                "vllm:request_inference_time_seconds",
                "Seconds spent being computed",
                &buckets::REQUEST_S,
            ),
            prefill: add(
                "vllm:request_prefill_time_seconds",
                "Seconds from the first row to the first token",
                &buckets::REQUEST_S,
            ),
            decode: add(
                "vllm:request_decode_time_seconds",
                "Seconds from the first token to the last",
                &buckets::REQUEST_S,
            ),
        }
    }
}

impl Sizes {
    fn new(f: &mut ModelFamilies, context: usize) -> Sizes {
        let tokens = buckets::one_two_five(context);
        let mut add = |name, help, buckets: &[f64]| f.add(name, help, Histogram::new(buckets));
        Sizes {
            prompt_tokens: add("vllm:request_prompt_tokens", "Tokens of a prompt", &tokens),
            generation_tokens: add("vllm:request_generation_tokens", "Tokens of an answer", &tokens),
            max_tokens: add("vllm:request_params_max_tokens", "max_tokens of a request that set it", &tokens),
            longest: add(
                "vllm:request_max_num_generation_tokens",
                "Tokens of the longest answer to a prompt",
                &tokens,
            ),
            n: add("vllm:request_params_n", "Answers asked for", &buckets::N),
            preemptions: add(
                "vllm:request_num_preemptions",
                "Preemptions of a request",
                &buckets::PREEMPTIONS,
            ),
            computed: add(
                "vllm:request_prefill_kv_computed_tokens",
                "Prompt tokens of a request that had to be computed",
                &tokens,
            ),
        }
    }
}
