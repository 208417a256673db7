//! Inference by an encoder: texts or token ids as tensors, and its numbers as tensors.
//!
//! Token ids are rows of one length; the attention mask says which of them are there, and only those are encoded.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use inference::{
    Classify, Embed, Embedding, Infer, Inferred, InputPrompt, Length, Operation, Output, RequestContext,
    TextInput, Truncation,
};
use wire::error::quote;
use wire::oip::{Parameter, Parameters, Tensor};
use wire::{Fault, limits};

use super::generated::in_order;
use crate::core::Core;
use crate::encode;
use crate::preparation::Admitted;
use crate::registry::Lease;
use crate::signature::check_outputs;

/// The inputs of encoders.
const INPUTS: [&str; 5] = ["text", "text_pair", "input_ids", "attention_mask", "token_type_ids"];

/// Answers a request with the numbers of an encoder.
///
/// # Errors
/// Inputs that do not fit together, outputs of different computations, and those of the encoder's operations.
pub(super) async fn answer(
    core: &Core,
    model: Lease,
    infer: Infer,
    context: Arc<RequestContext>,
    time_limit: Option<Duration>,
    admitted: Admitted,
) -> Result<Output, Fault> {
    let (signature, version) = (model.signature(), model.version.clone());
    check_outputs(model.name(), &signature, &infer.outputs)?;
    let inputs = read(model.name(), &infer.inputs)?;
    let embeds = signature.outputs.iter().any(|output| output.name == "embedding");
    let wants = |name: &str| infer.outputs.iter().any(|wanted| wanted == name);
    let classes = infer.outputs.iter().any(|wanted| wanted != "embedding");
    if classes && wants("embedding") {
        let message = "embedding is computed by itself; ask for the other outputs in a request of their own";
        return Err(Fault::field("outputs", message));
    }
    let operation = if embeds && !classes {
        embed(&infer.parameters, inputs)?
    } else {
        classify(&infer.parameters, inputs)?
    };
    let output = encode::answer(core, model, operation, context, time_limit, admitted).await?;
    let mut inferred = inferred(output, version)?;
    if !infer.outputs.is_empty() {
        inferred.outputs = in_order(inferred.outputs, &infer.outputs);
    }
    Ok(Output::Tensors(inferred))
}

/// The numbers of an encoder as tensors.
fn inferred(output: Output, version: Arc<str>) -> Result<Inferred, Fault> {
    let (model, outputs, labels) = match output {
        Output::Embeddings(encoded) => {
            let rows: Vec<&[f32]> = encoded
                .results
                .iter()
                .map(|result| match result {
                    Embedding::Dense(values) => values.as_slice(),
                    Embedding::Tokens { .. } | Embedding::Sparse(_) => &[],
                })
                .collect();
            let shape = vec![rows.len(), rows.first().map_or(0, |row| row.len())];
            let tensor = Tensor::floats("embedding", shape, &rows.concat());
            (encoded.model, vec![tensor.map_err(Fault::internal)?], Vec::new())
        }
        Output::Classes { labels, scores } => {
            let (rows, width) = (scores.results.len(), labels.len());
            let values = scores.results.concat();
            let tensors = if width == 1 {
                vec![Tensor::floats("score", vec![rows], &values)]
            } else {
                let names = labels.iter().map(|label| Bytes::copy_from_slice(label.as_bytes())).collect();
                let names = Tensor::strings("labels", vec![width], names);
                vec![Tensor::floats("scores", vec![rows, width], &values), names]
            };
            let tensors = tensors.into_iter().collect::<Result<Vec<_>, String>>();
            let scored = if width == 1 { "score" } else { "scores" };
            (scores.model, tensors.map_err(Fault::internal)?, vec![(scored.to_owned(), labels)])
        }
        _ => return Err(Fault::internal("an encoder's numbers were asked for, and something else came")),
    };
    Ok(Inferred { model, version, outputs, labels })
}

fn length(parameters: &Parameters) -> Result<Length, Fault> {
    let cuts = parameters.boolean("parameters", "truncate")?.unwrap_or(false);
    Ok(Length::of_model(if cuts { Truncation::End } else { Truncation::Refuse }))
}

fn embed(parameters: &Parameters, inputs: Vec<TextInput>) -> Result<Operation, Fault> {
    let dimensions = parameters.count("parameters", "dimensions")?;
    let prompt = match parameters.get("prompt_name") {
        None => InputPrompt::Default,
        Some(Parameter::Text(name)) => InputPrompt::Named(name.clone()),
        Some(_) => {
            return Err(Fault::field("parameters.prompt_name", "parameters.prompt_name must be a string"));
        }
    };
    Ok(Operation::Embed(Embed {
        inputs,
        prompt,
        length: length(parameters)?,
        dimensions: dimensions.map(|count| usize::try_from(count).unwrap_or(usize::MAX)),
        normalize: parameters.boolean("parameters", "normalize")?,
        ..Embed::default()
    }))
}

fn classify(parameters: &Parameters, inputs: Vec<TextInput>) -> Result<Operation, Fault> {
    let raw_scores = parameters.boolean("parameters", "raw_scores")?.unwrap_or(false);
    Ok(Operation::Classify(Classify {
        inputs,
        length: length(parameters)?,
        raw_scores,
        ..Classify::default()
    }))
}

/// The texts or tokens of the inputs.
fn read(model: &str, inputs: &[Tensor]) -> Result<Vec<TextInput>, Fault> {
    if let Some(other) = inputs.iter().find(|input| !INPUTS.contains(&input.name.as_str())) {
        let name = quote(&other.name);
        let message =
            format!("{name} is not an input of the model {model}; its inputs are: {}", INPUTS.join(", "));
        return Err(Fault::field(other.name.clone(), message));
    }
    let find = |name: &str| inputs.iter().find(|input| input.name == name);
    let [text, pair, ids, mask, types] = INPUTS.map(find);
    match (text, ids) {
        (Some(_), Some(_)) => {
            let message = "text and input_ids are both there; a request has one of them";
            Err(Fault::field("input_ids", message))
        }
        (None, None) => {
            let message = format!("the model {model} needs the input text (BYTES) or input_ids (INT64)");
            Err(Fault::field("text", message))
        }
        (Some(text), None) => {
            if let Some(stray) = mask.or(types) {
                let message = format!("{} goes with input_ids, not with text", stray.name);
                return Err(Fault::field(stray.name.clone(), message));
            }
            texts(text, pair)
        }
        (None, Some(ids)) => {
            if pair.is_some() {
                return Err(Fault::field("text_pair", "text_pair goes with text, not with input_ids"));
            }
            tokens(ids, mask, types)
        }
    }
}

/// Texts of shape `[n]` or `[n, 1]`.
fn texts(text: &Tensor, pair: Option<&Tensor>) -> Result<Vec<TextInput>, Fault> {
    let rows = column(text)?;
    let texts = text.texts()?.into_iter();
    let Some(pair) = pair else { return Ok(texts.map(|text| TextInput::Text(text.to_owned())).collect()) };
    if column(pair)? != rows {
        let message =
            format!("the input {} must have as many texts as {}", pair.described(), text.described());
        return Err(Fault::field("text_pair", message));
    }
    let pairs = texts.zip(pair.texts()?);
    Ok(pairs.map(|(first, second)| TextInput::Pair(first.to_owned(), second.to_owned())).collect())
}

/// The rows of a tensor of shape `[n]` or `[n, 1]`.
fn column(tensor: &Tensor) -> Result<usize, Fault> {
    match tensor.shape.as_slice() {
        [rows] | [rows, 1] => check_rows(tensor, *rows),
        _ => {
            let message = format!("the input {} must have shape [n] or [n,1]", tensor.described());
            Err(Fault::field(tensor.name.clone(), message))
        }
    }
}

fn check_rows(tensor: &Tensor, rows: usize) -> Result<usize, Fault> {
    if (1..=limits::INPUTS).contains(&rows) {
        return Ok(rows);
    }
    let message =
        format!("the input {} has {rows} rows; it must have 1 to {}", tensor.described(), limits::INPUTS);
    Err(Fault::field(tensor.name.clone(), message))
}

/// Token ids of shape `[n, s]`, without those that the mask leaves out.
fn tokens(ids: &Tensor, mask: Option<&Tensor>, types: Option<&Tensor>) -> Result<Vec<TextInput>, Fault> {
    let [rows, width] = ids.shape[..] else {
        let message = format!("the input {} must have shape [n,s]", ids.described());
        return Err(Fault::field("input_ids", message));
    };
    check_rows(ids, rows)?;
    let beside = |tensor: Option<&Tensor>, default: i64| match tensor {
        None => Ok(vec![default; rows * width]),
        Some(tensor) if tensor.shape == ids.shape => tensor.integers(),
        Some(tensor) => {
            let message =
                format!("the input {} must have the shape of {}", tensor.described(), ids.described());
            Err(Fault::field(tensor.name.clone(), message))
        }
    };
    let (mask, types) = (beside(mask, 1)?, beside(types, 0)?);
    let ids = ids.integers()?;
    (0..rows)
        .map(|row| {
            let of = |values: &[i64]| values[row * width..(row + 1) * width].to_vec();
            one_row(row, &of(&ids), &of(&mask), &of(&types))
        })
        .collect()
}

/// The tokens of a row: those where the mask is 1, which lie side by side.
fn one_row(row: usize, ids: &[i64], mask: &[i64], types: &[i64]) -> Result<TextInput, Fault> {
    if let Some(at) = mask.iter().position(|bit| *bit != 0 && *bit != 1) {
        let message = format!("attention_mask[{row}][{at}] is {}; it must be 0 or 1", mask[at]);
        return Err(Fault::field("attention_mask", message));
    }
    let from = mask.iter().position(|bit| *bit == 1);
    let to = mask.iter().rposition(|bit| *bit == 1);
    let (Some(from), Some(to)) = (from, to) else {
        let message = format!("attention_mask[{row}] is 0 everywhere; each row must have at least 1 token");
        return Err(Fault::field("attention_mask", message));
    };
    if let Some(hole) = mask[from..=to].iter().position(|bit| *bit == 0) {
        let message = format!(
            "attention_mask[{row}][{}] is 0 between tokens; only the ends of a row may be left out",
            from + hole
        );
        return Err(Fault::field("attention_mask", message));
    }
    let number = |name: &str, at: usize, value: i64, most: i64| {
        if (0..=most).contains(&value) {
            return Ok(value);
        }
        let message = format!("{name}[{row}][{at}] is {value}; it must be between 0 and {most}");
        Err(Fault::field(name, message))
    };
    let mut tokens = Vec::with_capacity(to + 1 - from);
    let mut kinds = Vec::with_capacity(to + 1 - from);
    for at in from..=to {
        let id = number("input_ids", at, ids[at], i64::from(u32::MAX))?;
        tokens.push(u32::try_from(id).unwrap_or(u32::MAX));
        kinds.push(u8::try_from(number("token_type_ids", at, types[at], 255)?).unwrap_or(u8::MAX));
    }
    Ok(match kinds.iter().all(|kind| *kind == 0) {
        true => TextInput::Tokens(tokens),
        false => TextInput::TypedTokens { tokens, types: kinds },
    })
}
