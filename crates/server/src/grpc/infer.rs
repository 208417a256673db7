//! `ModelInfer`: tensors in, tensors out.

use inference::{Inferred, Output};
use service::{ModelVersion, Takes};
use wire::Fault;
use wire::oip::grpc::{ModelInferRequest, ModelInferResponse};
use wire::oip::rpc::{request_of, response_of};
use wire::oip::{InferRequest, ResponseHead, as_wanted, check_model_name, plain_name};

use super::call::Call;
use crate::oip::{Wanted, operation, shorter};

/// Answers a call.
pub(super) async fn model_infer(call: Call, message: ModelInferRequest) -> Result<ModelInferResponse, Fault> {
    let model = checked(&call, &message)?.name;
    let (bytes, memory) = call.memory.take();
    let admitted = call.state.service.admit(Takes::Texts, &call.context, bytes).await?;
    let reading = admitted.run(move |admitted, _| {
        admitted.hold(memory);
        request_of(message)
    });
    let (admitted, request) = call.state.service.counted(reading.await)?;
    answered(&call, model, request, admitted).await
}

/// The version of a model that a message asks for.
pub(super) fn checked(call: &Call, message: &ModelInferRequest) -> Result<ModelVersion, Fault> {
    check_model_name(&message.model_name)?;
    call.state.service.find_version(&message.model_name, &message.model_version)
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
    let Inferred { model, version, outputs, labels } = inferred;
    let label = |output: &str, index: usize| Inferred::label(&labels, output, index);
    let outputs = as_wanted(outputs, &wanted.outputs, &label)?;
    let id = wanted.id.clone();
    let (model, version) = (plain_name(&model).to_owned(), version.to_string());
    let head = ResponseHead { model, version, id, ..ResponseHead::default() };
    Ok(response_of(head, &outputs))
}
