//! Inference: tensors from tensors, by models of tensors, and by models of texts for their texts as tensors.
//!
//! A model of tensors ([`TensorModel`](crate::TensorModel)) computes on a thread that may block, a few requests at once. Encoders and generating
//! models answer the same operation by their own ones.
//!
//! Deliberately absent: state between requests, batching of requests of a model of tensors.

mod encoder;
mod generated;
mod run;

pub(crate) use run::{Ended, record};

use std::sync::Arc;
use std::time::{Duration, Instant};

use inference::{Infer, Output, RequestContext};
use wire::Fault;

use crate::core::Core;
use crate::preparation::Admitted;
use crate::registry::Lease;

/// Answers a request for inference.
///
/// # Errors
/// Inputs that the model does not take, outputs that it does not have, a full queue, a time limit.
pub(crate) async fn answer(
    core: &Core,
    model: Lease,
    infer: Infer,
    context: Arc<RequestContext>,
    time_limit: Option<Duration>,
    admitted: Admitted,
) -> Result<Output, Fault> {
    let has = |name: &str| infer.inputs.iter().any(|input| input.name == name);
    if let Some(tensors) = model.tensors().cloned() {
        let deadline = time_limit.and_then(|limit| Instant::now().checked_add(limit));
        return run::answer(core, model, tensors, infer, context, deadline, admitted).await;
    }
    if model.encoding().is_some() && (model.generating().is_none() || !has("text_input")) {
        return encoder::answer(core, model, infer, context, time_limit, admitted).await;
    }
    generated::answer(core, model, infer, context, time_limit, admitted).await
}
