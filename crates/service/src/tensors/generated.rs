//! Text of a generating model as tensors: prompts in, answers out, whole.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use inference::{Event, Generate, Generation, Infer, Inferred, Output, Part, RequestContext};
use wire::Fault;
use wire::oip::{Datatype, Tensor, TextRequest, text_request};

use crate::core::Core;
use crate::generation;
use crate::preparation::Admitted;
use crate::registry::Lease;
use crate::signature::check_outputs;

/// An answer so far.
#[derive(Default)]
struct Answer {
    text: String,
    tokens: u32,
    reason: &'static str,
}

/// Answers a request for the text of a generating model.
///
/// # Errors
/// Inputs that it does not take, a stream, and those of a generation.
pub(super) async fn answer(
    core: &Core,
    model: Lease,
    infer: Infer,
    context: Arc<RequestContext>,
    time_limit: Option<Duration>,
    admitted: Admitted,
) -> Result<Output, Fault> {
    check_outputs(model.name(), &model.signature(), &infer.outputs)?;
    let version = model.version.clone();
    let text = text_request(infer.model.as_deref(), &infer.inputs, &infer.parameters)?;
    if text.stream {
        let message =
            "stream is true: an answer that is streamed is asked for by generate_stream or ModelStreamInfer";
        return Err(Fault::field("stream", message));
    }
    let TextRequest { completion, echo, .. } = text;
    let generate = Generate { field: "text_input", wants_text: echo, ..Generate::text(completion) };
    let mut generation = generation::answer(core, model, generate, context, time_limit, admitted).await?;
    let mut answers: Vec<Answer> = (0..generation.choices()).map(|_| Answer::default()).collect();
    for (choice, answer) in answers.iter_mut().enumerate().filter(|_| echo) {
        let prompt = generation.prompt_of(choice).and_then(|prompt| prompt.text.clone());
        answer.text = prompt.unwrap_or_default();
    }
    gather(&mut generation, &mut answers).await?;
    let outputs = tensors(&generation, answers).map_err(Fault::internal)?;
    let outputs = if infer.outputs.is_empty() { outputs } else { in_order(outputs, &infer.outputs) };
    let model = generation.model.clone();
    Ok(Output::Tensors(Inferred { model, version, outputs, labels: Vec::new() }))
}

async fn gather(generation: &mut Generation, answers: &mut [Answer]) -> Result<(), Fault> {
    while !generation.is_over() {
        let (choice, event) = generation.next().await?;
        let Some(answer) = answers.get_mut(choice) else { continue };
        if matches!(event, Event::Token(_)) {
            answer.tokens += 1;
        }
        let (parts, end) = event.split();
        for part in parts {
            match part {
                Part::Content(text) | Part::Reasoning(text) => answer.text.push_str(&text),
                Part::Call { .. } | Part::Arguments { .. } => {}
            }
        }
        if let Some(end) = end {
            answer.reason = end.reason;
        }
    }
    Ok(())
}

fn tensors(generation: &Generation, answers: Vec<Answer>) -> Result<Vec<Tensor>, String> {
    let shape = || vec![answers.len()];
    let counts = |name: &str, counts: Vec<u32>| {
        let bytes: Vec<u8> = counts.iter().flat_map(|count| count.to_le_bytes()).collect();
        Tensor::raw(name, Datatype::Uint32, shape(), bytes.into())
    };
    let prompt_tokens = |choice| {
        let prompt = generation.prompt_of(choice).map_or(0, |prompt| prompt.tokens);
        u32::try_from(prompt).unwrap_or(u32::MAX)
    };
    let reasons = answers.iter().map(|answer| Bytes::from_static(answer.reason.as_bytes())).collect();
    Ok(vec![
        Tensor::strings("finish_reason", shape(), reasons)?,
        counts("num_input_tokens", (0..answers.len()).map(prompt_tokens).collect())?,
        counts("num_output_tokens", answers.iter().map(|answer| answer.tokens).collect())?,
        Tensor::strings(
            "text_output",
            shape(),
            answers.into_iter().map(|answer| Bytes::from(answer.text.into_bytes())).collect(),
        )?,
    ])
}

/// The tensors of these names, in this order.
pub(super) fn in_order(mut tensors: Vec<Tensor>, names: &[String]) -> Vec<Tensor> {
    let place = |tensor: &Tensor| names.iter().position(|name| *name == tensor.name);
    tensors.retain(|tensor| place(tensor).is_some());
    tensors.sort_by_key(|tensor| place(tensor));
    tensors
}
