//! From the engine's thread to the async side: a bounded channel that is counted on the way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use engine::{FinishReason, ReceiverGone, StepReport, Usage};
use events::{Ending, InferenceSample, ModelEvent, ModelMetrics};
use inference::{RequestContext, RequestUsage};
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use crate::admission::Admission;
use crate::model::unix_ms;
use crate::watchdog::Watchdog;

/// The outbox of one choice. It never blocks: a reader that is too far behind loses its request.
pub(crate) struct Outbox {
    pub(crate) choice: usize,
    pub(crate) sender: Sender<(usize, engine::Event)>,
    pub(crate) metrics: Arc<ModelMetrics>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) group: Arc<Group>,
    pub(crate) overflow: Arc<AtomicBool>,
    pub(crate) last: Option<Instant>,
    pub(crate) max_tokens: Option<usize>,
    pub(crate) context: Arc<RequestContext>,
}

/// The choices of one prompt, which vLLM counts as one request.
pub(crate) struct Group {
    n: usize,
    left: AtomicUsize,
    longest: AtomicUsize,
}

impl Group {
    pub(crate) fn new(n: usize) -> Group {
        Group { n, left: AtomicUsize::new(n), longest: AtomicUsize::new(0) }
    }

    fn ended(&self, tokens: usize, metrics: &ModelMetrics) {
        self.longest.fetch_max(tokens, Ordering::Relaxed);
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let longest_tokens = self.longest.load(Ordering::Relaxed);
            metrics.record(ModelEvent::GroupFinished { n: self.n, longest_tokens });
        }
    }
}

impl engine::Outbox for Outbox {
    fn put(&mut self, event: engine::Event) -> Result<(), ReceiverGone> {
        match &event {
            engine::Event::Prompt { .. } | engine::Event::Resumed { .. } => {}
            engine::Event::Token { .. } => self.count_token(),
            engine::Event::Done { reason, usage, timings, .. } => {
                self.count_end(ending(*reason), usage, timings);
            }
            engine::Event::Failed { usage, timings, .. } => self.count_end(Ending::Error, usage, timings),
        }
        self.sender.try_send((self.choice, event)).map_err(|error| {
            if matches!(error, TrySendError::Full(_)) && !self.overflow.swap(true, Ordering::Relaxed) {
                self.metrics.record(ModelEvent::SlowReader);
            }
            ReceiverGone
        })
    }

    fn is_gone(&self) -> bool {
        self.sender.is_closed()
    }
}

impl Outbox {
    fn count_token(&mut self) {
        let now = Instant::now();
        self.metrics.record(match self.last {
            None => {
                self.context.record_first_token();
                ModelEvent::FirstToken { after: now - self.context.began() }
            }
            Some(last) => ModelEvent::NextToken { after: now - last },
        });
        self.last = Some(now);
    }

    fn count_end(&mut self, ending: Ending, usage: &Usage, timings: &engine::Timings) {
        self.admission.took(timings.prefill + timings.decode);
        self.metrics.record(ModelEvent::Finished {
            ending,
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.cached_tokens,
            generated_tokens: usage.completion_tokens - usage.resumed_tokens,
            max_tokens: self.max_tokens,
            total: self.context.began().elapsed(),
            queued: timings.queued,
            prefill: timings.prefill,
            decode: timings.decode,
            preemptions: timings.preemptions,
        });
        self.metrics.record_inference(&InferenceSample {
            succeeded: matches!(ending, Ending::Stop | Ending::Length),
            items: 1,
            total: self.context.began().elapsed(),
            queued: timings.queued,
            computed: timings.prefill + timings.decode,
            at_ms: unix_ms(),
        });
        let counts_prompt = self.choice.is_multiple_of(self.group.n.max(1));
        let of_prompt = |tokens: usize| if counts_prompt { tokens } else { 0 };
        self.context.record_ending(&RequestUsage {
            prompt_tokens: of_prompt(usage.prompt_tokens),
            cached_tokens: of_prompt(usage.cached_tokens),
            // Resumed tokens were counted where they were generated.
            completion_tokens: usage.completion_tokens - usage.resumed_tokens,
            ending: ending.name(),
            queued: timings.queued,
            started: !(timings.prefill + timings.decode).is_zero(),
            machine: usage.prompt_time + usage.completion_time,
        });
        self.group.ended(usage.completion_tokens, &self.metrics);
    }
}

fn ending(reason: FinishReason) -> Ending {
    match reason {
        FinishReason::Stop => Ending::Stop,
        FinishReason::Length => Ending::Length,
        FinishReason::Cancelled => Ending::Abort,
    }
}

/// Counts the engine's steps.
pub(crate) struct Steps {
    metrics: Arc<ModelMetrics>,
    /// Bytes of weights that a step reads, by its rows.
    weight_bytes: Vec<u64>,
    watchdog: Arc<Watchdog>,
}

/// Past so many rows a step is bound by arithmetic, and what little more it reads is not worth telling.
const MOST_ROWS: usize = 512;

impl Steps {
    pub(crate) fn new(
        metrics: Arc<ModelMetrics>,
        watchdog: Arc<Watchdog>,
        weight_bytes: &dyn Fn(usize) -> u64,
    ) -> Steps {
        Steps { metrics, watchdog, weight_bytes: (0..=MOST_ROWS).map(weight_bytes).collect() }
    }
}

impl engine::Watch for Steps {
    fn step(&mut self, step: &StepReport) {
        self.watchdog.beat();
        let StepReport { rows, decoded, took, .. } = *step;
        let mixed = step.decoding > 0 && step.prompt_rows > 0;
        let weight_bytes = self.weight_bytes[rows.min(MOST_ROWS)];
        self.metrics.record(ModelEvent::Step { rows, mixed, decoded, weight_bytes, took });
    }

    fn turn(&mut self, waited: Duration, held: Duration) {
        self.metrics.record(ModelEvent::DeviceTurn { waited, computed: held });
    }

    fn verified(&mut self, proposed: usize, accepted: usize) {
        self.metrics.record(ModelEvent::Verified { proposed, accepted });
    }
}

/// Counts an encoder's steps.
pub(crate) struct EncoderSteps {
    metrics: Arc<ModelMetrics>,
    watchdog: Arc<Watchdog>,
}

impl EncoderSteps {
    pub(crate) fn new(metrics: Arc<ModelMetrics>, watchdog: Arc<Watchdog>) -> EncoderSteps {
        EncoderSteps { metrics, watchdog }
    }
}

impl engine::encoder::EncodeWatch for EncoderSteps {
    fn unit(&mut self) {
        self.watchdog.beat();
    }

    fn step(&mut self, step: &engine::encoder::EncoderStepReport) {
        let engine::encoder::EncoderStepReport { texts, tokens, took } = *step;
        self.metrics.record(ModelEvent::EncodeStep { texts, tokens, took });
    }

    fn turn(&mut self, waited: Duration, held: Duration) {
        self.metrics.record(ModelEvent::DeviceTurn { waited, computed: held });
    }
}
