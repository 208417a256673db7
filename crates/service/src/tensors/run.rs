//! A model of tensors computes a request: on a thread that may block, a few at once, with a deadline.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use events::{Ending, InferenceSample, ModelEvent, ModelMetrics, Rejection};
use inference::{Infer, Inferred, Output, RequestContext, RequestUsage};
use wire::Fault;
use wire::oip::{Tensor, check_output};

use crate::core::Core;
use crate::model::unix_ms;
use crate::preparation::{Admitted, Leaving, Stop, left};
use crate::registry::Lease;
use crate::signature::check;
use crate::tensor_model::TensorModel;
use crate::tensor_slots::{Entered, expired};

/// What a request was, when it is over.
pub(crate) struct Ended {
    pub(crate) items: usize,
    pub(crate) queued: Duration,
    pub(crate) computed: Duration,
}

/// Answers a request with the outputs of a model of tensors.
///
/// # Errors
/// Inputs that the model does not take, a computation that fails, a full queue, a time limit.
pub(super) async fn answer(
    core: &Core,
    model: Lease,
    tensors: Arc<dyn TensorModel>,
    infer: Infer,
    context: Arc<RequestContext>,
    deadline: Option<Instant>,
    admitted: Admitted,
) -> Result<Output, Fault> {
    let name = model.name().to_owned();
    let metrics = core.metrics.model(&name);
    context.record_submission(&name);
    check(&name, &tensors.signature(), &infer)?;
    // The slot of its text is free before it waits for one to compute in; its body's memory is not.
    let held = admitted.into_held();
    let items = infer.items();
    let asked = Instant::now();
    let slot =
        core.tensors.enter(context.owner(), deadline, tensors.instances()).await.inspect_err(|fault| {
            if fault.status == 429 {
                metrics.record(ModelEvent::Rejected(Rejection::QueuedRequests));
            }
        })?;
    let began = Instant::now();
    let version = model.version.clone();
    let labelled = tensors.clone();
    let outcome = compute(model, tensors, infer, deadline, (slot, held)).await;
    let ended = Ended { items, queued: began - asked, computed: began.elapsed() };
    record(&metrics, &context, &outcome, &ended);
    let outputs = outcome?;
    let labels = outputs.iter().map(|output| (output.name.clone(), labelled.labels(&output.name)));
    let labels = labels.filter(|(_, labels)| !labels.is_empty()).collect();
    Ok(Output::Tensors(Inferred { model: name, version, outputs, labels }))
}

/// Computes on a thread that may block. What the request holds is free when that has ended.
async fn compute(
    model: Lease,
    tensors: Arc<dyn TensorModel>,
    infer: Infer,
    deadline: Option<Instant>,
    held: (Entered, Vec<Box<dyn Any + Send>>),
) -> Result<Vec<Tensor>, Fault> {
    let (stop, leaving) = Stop::new();
    let name = model.name().to_owned();
    let working = tokio::task::spawn_blocking(move || {
        let _held = (model, held);
        let is_over = || stop.is_set() || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if is_over() {
            return Err(left());
        }
        let outputs = tensors.infer(infer.inputs, &infer.outputs, &is_over)?;
        outputs.iter().try_for_each(check_output).map_err(|why| Fault::field("outputs", why))?;
        Ok(outputs)
    });
    let outcome = match deadline {
        None => working.await,
        Some(deadline) => match tokio::time::timeout_at(deadline.into(), working).await {
            Ok(outcome) => outcome,
            // The thread goes on until it asks whether to stop.
            Err(_) => return Err(expired()),
        },
    };
    drop::<Leaving>(leaving);
    // What ended because its time was over may have said so before the timer did.
    let is_late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
    match outcome {
        Ok(Err(_)) if is_late => Err(expired()),
        Ok(outcome) => outcome,
        Err(failed) if failed.is_panic() => {
            tracing::error!(model = name, "a model of tensors panicked");
            Err(Fault::internal(format!(
                "the model {name} failed on this request; the server's log has the reason"
            )))
        }
        Err(_) => Err(Fault::unavailable("draining", "the server is shutting down", 5)),
    }
}

/// Tells the metrics and the record of the request how it ended.
pub(crate) fn record(
    metrics: &ModelMetrics,
    context: &RequestContext,
    outcome: &Result<Vec<Tensor>, Fault>,
    ended: &Ended,
) {
    let ending = if outcome.is_ok() { Ending::Stop } else { Ending::Error };
    let Ended { items, queued, computed } = *ended;
    let total = context.began().elapsed();
    context.record_ending(&RequestUsage {
        prompt_tokens: 0,
        cached_tokens: 0,
        completion_tokens: 0,
        ending: ending.name(),
        queued,
        started: true,
        machine: computed,
    });
    metrics.record(ModelEvent::EncodeFinished { ending, texts: items, tokens: 0, total, queued });
    let succeeded = outcome.is_ok();
    metrics.record_inference(&InferenceSample {
        succeeded,
        items,
        total,
        queued,
        computed,
        at_ms: unix_ms(),
    });
}
