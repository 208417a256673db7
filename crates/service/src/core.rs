//! What every request of the service needs: bounds, counts, admission control.

use std::sync::Arc;

use events::{Event, Metrics, ModelEvent, Rejection};
use tokio::sync::Semaphore;
use wire::Fault;

use crate::admission::Admission;
use crate::options::Options;
use crate::tensor_slots::TensorSlots;

pub(crate) struct Core {
    pub(crate) options: Options,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) tensors: TensorSlots,
    /// Requests to pipelines that run at once.
    pub(crate) pipelines: TensorSlots,
    /// A place for each of them to compute on texts in. They hold models meanwhile, so they must not wait for places
    /// whose holders may wait for models.
    pub(crate) steps: Arc<Semaphore>,
}

impl Core {
    /// The fault of a request that is turned away, counted.
    pub(crate) fn refused(&self, reason: Rejection, fault: Fault) -> Fault {
        self.metrics.record(Event::Rejected(reason));
        fault
    }

    /// Counts a refusal for want of a place, as the model's if it is known which one was asked for.
    pub(crate) fn count_full(&self, fault: &Fault, model: Option<&str>) {
        if fault.status == 429 {
            let late = fault.code == Some("wait_too_long");
            let reason = if late { Rejection::QueuedTime } else { Rejection::QueuedRequests };
            match model {
                Some(model) => self.metrics.model(model).record(ModelEvent::Rejected(reason)),
                None => self.metrics.record(Event::Rejected(reason)),
            }
        }
    }

    /// Counts refusals for the size of what a body holds.
    pub(crate) fn counted<T>(&self, outcome: Result<T, Fault>) -> Result<T, Fault> {
        outcome.inspect_err(|fault| {
            let reason = match fault.code {
                Some("context_length_exceeded") => Rejection::Context,
                Some("body_too_complex") => Rejection::BodyValues,
                _ => return,
            };
            self.metrics.record(Event::Rejected(reason));
        })
    }
}
