//! Classification: scores of the model's labels for each input.

use engine::encoder::Want;
use inference::{Classify, InputLength, Output};
use wire::Fault;

use super::call::{Call, Inputs};
use super::numbers::activate;
use super::reader::{Reader, Reading, length, text};
use super::rerank::no_chunks;
use crate::preparation::Admitted;

/// Answers a request for classes.
///
/// # Errors
/// Those of [`Call::encode`], and a model without a classifier.
pub(crate) async fn answer(call: &Call<'_>, classify: Classify, admitted: Admitted) -> Result<Output, Fault> {
    check(&classify)?;
    let Some(head) = call.encoding.heads.classifier.clone() else {
        return Err(call.unable("classify texts"));
    };
    if !classify.labels.is_empty() {
        let own = head.labels.join(", ");
        let message = format!("the model {} has labels of its own: {own}", call.model.name());
        return Err(Fault::unsupported("labels", message));
    }
    let raw = classify.raw_scores;
    let read = move |reader: &Reader| read(reader, &classify);
    let (mut scores, lengths) = call.encode::<Vec<f32>, _>(admitted, Want::Logits, read).await?;
    if !raw {
        scores.iter_mut().for_each(|logits| activate(logits, head.activation));
    }
    Ok(Output::Classes { labels: head.labels, scores: call.encoded(scores, lengths) })
}

pub(crate) fn check(classify: &Classify) -> Result<(), Fault> {
    if classify.inputs.is_empty() {
        return Err(Fault::field("inputs", "inputs is an empty list; it must have at least 1 text"));
    }
    no_chunks(classify.length)
}

fn read(reader: &Reader, classify: &Classify) -> Result<Inputs<Vec<InputLength>>, Fault> {
    let reading = Reading::within(classify.length);
    let mut texts = Vec::with_capacity(classify.inputs.len());
    let mut lengths = Vec::with_capacity(classify.inputs.len());
    for (at, input) in classify.inputs.iter().enumerate() {
        let input = reader.input(&format!("inputs[{at}]"), input, &reading)?;
        lengths.push(length(&input));
        texts.push(text(input, false));
    }
    let tokens = lengths.iter().map(|length| length.tokens).sum();
    Ok(Inputs { texts, tokens, rest: lengths })
}
