//! One request on an encoder: its texts are read, computed, and come back through one channel.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::encoder::{EncodeCosts, EncodeError, EncodeRefused, EncodeTicket, Job, Reply, Text, Want};
use events::{Ending, InferenceSample, ModelEvent, ModelMetrics, Rejection};
use inference::{Client, Encoded, InputLength, RequestContext, RequestUsage};
use tokio::sync::oneshot;
use wire::Fault;

use super::reader::Reader;
use crate::core::Core;
use crate::encoding::Encoding;
use crate::model::unix_ms;
use crate::preparation::Admitted;
use crate::registry::Lease;

/// Numbers of all vectors of an answer.
pub(crate) const MAX_NUMBERS: usize = 4 << 20;
/// From so many numbers on, arithmetic on them leaves the async threads.
const LARGE_NUMBERS: usize = 1 << 16;

/// A request on an encoder, and the model that is in use until it ends.
pub(crate) struct Call<'a> {
    pub(crate) core: &'a Core,
    pub(crate) model: Arc<Lease>,
    pub(crate) encoding: Encoding,
    pub(crate) context: Arc<RequestContext>,
    pub(crate) deadline: Option<Instant>,
}

/// What is kept of the numbers of a text.
pub(crate) trait Kept: Default + Send + 'static {
    fn keep(values: &[f32]) -> Self;
    /// How many numbers that is.
    fn numbers(&self) -> usize;
}

/// All of them.
impl Kept for Vec<f32> {
    fn keep(values: &[f32]) -> Vec<f32> {
        values.to_vec()
    }

    fn numbers(&self) -> usize {
        self.len()
    }
}

/// Those that are not 0, with their indices.
impl Kept for Vec<(u32, f32)> {
    fn keep(values: &[f32]) -> Vec<(u32, f32)> {
        (0u32..).zip(values.iter().copied()).filter(|(_, value)| *value != 0.0).collect()
    }

    fn numbers(&self) -> usize {
        2 * self.len()
    }
}

/// The inputs of a request as they were read.
pub(crate) struct Inputs<T> {
    /// What the encoder computes.
    pub(crate) texts: Vec<Text>,
    /// Tokens of the request that are encoded.
    pub(crate) tokens: usize,
    /// What the operation needs of them afterwards.
    pub(crate) rest: T,
}

impl Call<'_> {
    /// The fault of a request for something that the model has no head for.
    pub(crate) fn unable(&self, what: &str) -> Fault {
        self.model.unable(what)
    }

    /// Reads the texts off the async threads, has the encoder compute them, and gives back the numbers of each with
    /// what `read` kept.
    ///
    /// # Errors
    /// Those of `read`, and those of the encoder.
    pub(crate) async fn encode<V: Kept, T: Send + 'static>(
        &self,
        admitted: Admitted,
        want: Want,
        read: impl FnOnce(&Reader) -> Result<Inputs<T>, Fault> + Send + 'static,
    ) -> Result<(Vec<V>, T), Fault> {
        let (encoding, context, lease) = (self.encoding.clone(), self.context.clone(), self.model.clone());
        let model = self.model.name().to_owned();
        // The model is in use also when the client leaves while this goes on.
        let work = move |_: &mut Admitted, stop| {
            let inputs = read(&Reader { encoding, model, stop, context });
            drop(lease);
            inputs
        };
        let (admitted, inputs) = self.counted(admitted.run(work).await)?;
        // The slot and the body's memory are free before the texts wait for the encoder.
        drop(admitted);
        let Inputs { texts, tokens, rest } = inputs;
        if texts.is_empty() {
            return Ok((Vec::new(), rest));
        }
        let values = self.submit(want, texts, tokens)?.finished(self).await?;
        Ok((values, rest))
    }

    fn submit<V: Kept>(&self, want: Want, texts: Vec<Text>, tokens: usize) -> Result<Pending<V>, Fault> {
        let metrics = self.core.metrics.model(self.model.name());
        self.context.record_submission(self.model.name());
        let (to, from) = oneshot::channel();
        let reply = Collect {
            values: texts.iter().map(|_| V::default()).collect(),
            left: MAX_NUMBERS,
            to: Some(to),
            tokens,
            context: self.context.clone(),
            metrics: metrics.clone(),
            _model: self.model.clone(),
        };
        let Client(client) = self.context.client();
        let job = Job { client, want, texts, deadline: self.deadline, reply: Box::new(reply) };
        let ticket = self.encoding.engine.submit(job);
        let ticket = ticket.map_err(|refused| self.refused(&refused, &metrics))?;
        Ok(Pending { from, _ticket: ticket })
    }

    /// Computes with many numbers off the async threads, with few at once.
    ///
    /// # Errors
    /// When the runtime ends.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        numbers: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Fault> {
        if numbers < LARGE_NUMBERS {
            return Ok(work());
        }
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => Ok(done),
            Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
            Err(_) => Err(shutting_down()),
        }
    }

    /// The results under the model's name.
    pub(crate) fn encoded<T>(&self, results: Vec<T>, lengths: Vec<InputLength>) -> Encoded<T> {
        let fingerprint = self.encoding.facts.fingerprint.clone();
        Encoded { model: self.model.name().to_owned(), fingerprint, results, lengths }
    }

    /// Counts refusals of inputs for their length.
    fn counted<T>(&self, outcome: Result<T, Fault>) -> Result<T, Fault> {
        outcome.map_err(|fault| match fault.code {
            Some("context_length_exceeded") => self.core.refused(Rejection::Context, fault),
            _ => fault,
        })
    }

    fn refused(&self, refused: &EncodeRefused, metrics: &ModelMetrics) -> Fault {
        let reject = |reason| metrics.record(ModelEvent::Rejected(reason));
        match refused {
            EncodeRefused::TooManyTexts { .. } => {
                reject(Rejection::QueuedRequests);
                Fault::busy(refused.to_string(), self.retry_after_s())
            }
            EncodeRefused::TooManyTokens { .. } => {
                reject(Rejection::QueuedTokens);
                Fault::busy(refused.to_string(), self.retry_after_s())
            }
            EncodeRefused::Closed => {
                reject(Rejection::Draining);
                shutting_down()
            }
            // The reader has checked the rest.
            other => Fault::field("inputs", other.to_string()),
        }
    }

    /// Seconds until half of what waits is computed, by what tokens have taken so far.
    fn retry_after_s(&self) -> u32 {
        let stats = self.encoding.engine.stats();
        let per_token = stats.machine_time.as_secs_f64() / stats.tokens.max(1) as f64;
        let seconds = per_token * stats.waiting_tokens as f64 / 2.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 120")]
        return seconds.clamp(1.0, 120.0).ceil() as u32;
    }
}

/// A job of the encoder. Dropped, it is cancelled.
struct Pending<V> {
    from: oneshot::Receiver<Result<Vec<V>, Failure>>,
    _ticket: EncodeTicket,
}

impl<V> Pending<V> {
    async fn finished(self, call: &Call<'_>) -> Result<Vec<V>, Fault> {
        match self.from.await {
            Ok(Ok(values)) => Ok(values),
            Ok(Err(Failure::TooManyNumbers)) => Err(too_many_numbers()),
            Ok(Err(Failure::Encode(error))) => Err(fault_of(&error)),
            // The encoder's thread is gone, and its reply with it.
            Err(_) => Err(Fault::internal(format!("the encoder of {} has stopped", call.model.name()))),
        }
    }
}

enum Failure {
    Encode(EncodeError),
    TooManyNumbers,
}

/// The fault of an answer that is too large.
pub(crate) fn too_many_numbers() -> Fault {
    let message =
        format!("the vectors of the inputs have more than {MAX_NUMBERS} numbers together, the limit");
    Fault::field("inputs", message)
}

fn shutting_down() -> Fault {
    Fault::unavailable("draining", "the server is shutting down", 5)
}

fn fault_of(error: &EncodeError) -> Fault {
    match error {
        EncodeError::Cancelled => {
            Fault::unavailable("draining", "the server shut down before the answer was complete", 5)
        }
        EncodeError::Expired { .. } => Fault::expired(error.to_string()),
        EncodeError::Waited { .. } => Fault::unavailable("queue_timeout", error.to_string(), 10),
        other => Fault::internal(other.to_string()),
    }
}

/// Collects the numbers of a job on the encoder's thread.
struct Collect<V> {
    values: Vec<V>,
    /// Numbers that still fit in the answer.
    left: usize,
    to: Option<oneshot::Sender<Result<Vec<V>, Failure>>>,
    /// Tokens of the request.
    tokens: usize,
    context: Arc<RequestContext>,
    metrics: Arc<ModelMetrics>,
    /// In use until the job has ended.
    _model: Arc<Lease>,
}

impl<V: Kept> Reply for Collect<V> {
    fn text(&mut self, index: usize, values: &[f32]) {
        let kept = V::keep(values);
        match self.left.checked_sub(kept.numbers()) {
            Some(left) => (self.left, self.values[index]) = (left, kept),
            None => {
                if let Some(to) = self.to.take() {
                    let _ = to.send(Err(Failure::TooManyNumbers));
                }
            }
        }
    }

    fn is_gone(&self) -> bool {
        self.to.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    fn done(&mut self, outcome: Result<(), EncodeError>, costs: EncodeCosts) {
        let ending = match &outcome {
            Ok(()) => Ending::Stop,
            Err(EncodeError::Cancelled) => Ending::Abort,
            Err(_) => Ending::Error,
        };
        let EncodeCosts { queued, machine, texts, .. } = costs;
        self.context.record_ending(&RequestUsage {
            prompt_tokens: self.tokens,
            cached_tokens: 0,
            completion_tokens: 0,
            ending: ending.name(),
            queued,
            started: machine > Duration::ZERO,
            machine,
        });
        let total = self.context.began().elapsed();
        self.metrics.record(ModelEvent::EncodeFinished { ending, texts, tokens: self.tokens, total, queued });
        self.metrics.record_inference(&InferenceSample {
            succeeded: outcome.is_ok(),
            items: texts,
            total,
            queued,
            computed: machine,
            at_ms: unix_ms(),
        });
        if let Some(to) = self.to.take() {
            let values = std::mem::take(&mut self.values);
            let _ = to.send(outcome.map(|()| values).map_err(Failure::Encode));
        }
    }
}
