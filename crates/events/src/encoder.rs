//! A model's encoder: its steps, and the requests to it.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;

use crate::buckets;
use crate::event::Ending;
use crate::family::ModelFamilies;
use crate::histogram::Histogram;

type Seconds = Counter<f64, AtomicU64>;

pub(crate) struct EncoderMetrics {
    texts: Counter,
    tokens: Counter,
    seconds: Seconds,
    step: Histogram,
    step_tokens: Histogram,
    /// As [`Ending::ALL`].
    requests: [Counter; Ending::ALL.len()],
    request: Histogram,
    queue: Histogram,
    request_texts: Histogram,
    request_tokens: Histogram,
}

impl EncoderMetrics {
    /// All at zero; `context` is in tokens and bounds the buckets of token counts.
    pub(crate) fn new(f: &mut ModelFamilies, context: usize) -> EncoderMetrics {
        let histogram =
            |f: &mut ModelFamilies, name, help, buckets: &[f64]| f.add(name, help, Histogram::new(buckets));
        let count = |f: &mut ModelFamilies, name, help| f.add(name, help, Counter::default());
        let endings = Ending::ALL.map(Ending::name);
        let tokens = buckets::one_two_five(context);
        EncoderMetrics {
            texts: count(f, "gristmill_encoder_texts", "Texts encoded"),
            tokens: count(f, "gristmill_encoder_tokens", "Tokens encoded; equal texts of a step count once"),
            seconds: f.add("gristmill_encoder_seconds", "Seconds of encoder steps", Seconds::default()),
            step: histogram(
                f,
                "gristmill_encoder_step_seconds",
                "Seconds an encoder step took, without waiting for the device",
                &buckets::STEP_S,
            ),
            step_tokens: histogram(
                f,
                "gristmill_encoder_step_tokens",
                "Tokens computed in an encoder step",
                &buckets::ITERATION_TOKENS,
            ),
            requests: f.add_by(
                "gristmill_encoder_requests",
                "Requests to the encoder that ended, by reason",
                "finished_reason",
                endings,
            ),
            request: histogram(
                f,
                "gristmill_encoder_request_seconds",
                "Seconds from the arrival of a request to the encoder to its end",
                &buckets::REQUEST_S,
            ),
            queue: histogram(
                f,
                "gristmill_encoder_queue_seconds",
                "Seconds that a request to the encoder waited for its first step",
                &buckets::REQUEST_S,
            ),
            request_texts: histogram(
                f,
                "gristmill_encoder_request_texts",
                "Texts of a request to the encoder",
                &buckets::one_two_five(MOST_TEXTS),
            ),
            request_tokens: histogram(
                f,
                "gristmill_encoder_request_tokens",
                "Tokens of a request to the encoder",
                &tokens,
            ),
        }
    }

    pub(crate) fn step(&self, texts: usize, tokens: usize, took: Duration) {
        self.texts.inc_by(texts as u64);
        self.tokens.inc_by(tokens as u64);
        self.seconds.inc_by(took.as_secs_f64());
        self.step.observe(took.as_secs_f64());
        self.step_tokens.observe(tokens as f64);
    }

    pub(crate) fn finished(
        &self,
        ending: Ending,
        texts: usize,
        tokens: usize,
        total: Duration,
        queued: Duration,
    ) {
        let counters = Ending::ALL.into_iter().zip(&self.requests);
        counters.filter(|(of, _)| *of == ending).for_each(|(_, counter)| _ = counter.inc());
        self.request.observe(total.as_secs_f64());
        self.queue.observe(queued.as_secs_f64());
        self.request_texts.observe(texts as f64);
        self.request_tokens.observe(tokens as f64);
    }
}

/// Texts of a large request, which bounds the buckets of their number.
const MOST_TEXTS: usize = 2_048;
