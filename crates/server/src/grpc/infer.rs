//! `ModelInfer`: tensors in, tensors out.

use inference::{Inferred, Output};
use service::Takes;
use wire::Fault;
use wire::oip::grpc::{ModelInferRequest, ModelInferResponse};
use wire::oip::rpc::{request_of, response_of};
use wire::oip::{InferRequest, ResponseHead, VERSION, as_wanted, check_model_name, check_version};

use super::call::Call;
use crate::oip::{Wanted, operation, shorter};

/// Answers a call.
pub(super) async fn model_infer(call: Call, message: ModelInferRequest) -> Result<ModelInferResponse, Fault> {
    checked(&call, &message)?;
    let model = message.model_name.clone();
    let (bytes, memory) = call.memory.take();
    let admitted = call.state.service.admit(Takes::Texts, &call.context, bytes).await?;
    let reading = admitted.run(move |admitted, _| {
        admitted.hold(memory);
        request_of(message)
    });
    let (admitted, request) = call.state.service.counted(reading.await)?;
    answered(&call, model, request, admitted).await
}

/// Checks that a model and its version are there.
pub(super) fn checked(call: &Call, message: &ModelInferRequest) -> Result<(), Fault> {
    check_model_name(&message.model_name)?;
    call.state.service.find(Some(&message.model_name))?;
    check_version(&message.model_name, &message.model_version)
}

/// Answers a request that was read.
pub(super) async fn answered(
    call: &Call,
    model: String,
    request: InferRequest,
    admitted: service::Admitted,
) -> Result<ModelInferResponse, Fault> {
    let (operation, wanted) = operation(model, request);
    let time_limit = shorter(call.time_limit, wanted.timeout);
    let request = inference::Request { operation, context: call.context.clone(), time_limit };
    match call.state.service.answer(request, admitted).await? {
        Output::Tensors(inferred) => response(inferred, &wanted),
        _ => Err(Fault::internal("tensors were asked for, and something else came")),
    }
}

fn response(inferred: Inferred, wanted: &Wanted) -> Result<ModelInferResponse, Fault> {
    let Inferred { model, outputs, labels } = inferred;
    let outputs = as_wanted(outputs, &wanted.outputs, &|_, index| labels.get(index).cloned())?;
    let id = wanted.id.clone();
    let head = ResponseHead { model, version: VERSION.to_owned(), id, ..ResponseHead::default() };
    Ok(response_of(head, &outputs))
}
