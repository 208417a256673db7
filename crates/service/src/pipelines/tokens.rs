//! Texts to the tokens of an encoder, as tensors: rows of one length, with an attention mask.

use inference::{Length, TextInput, Truncation};
use wire::Fault;
use wire::limits;
use wire::oip::{Datatype, Tensor};

use crate::encode::{Reader, Reading};

/// The outputs of these names for the texts, or the pairs of texts, of the inputs.
pub(super) fn tokenize(
    reader: &Reader,
    inputs: &[Tensor],
    max_tokens: Option<usize>,
    truncate: bool,
    outputs: &[String],
) -> Result<Vec<Tensor>, Fault> {
    let texts = inputs[0].texts()?;
    if texts.is_empty() || texts.len() > limits::INPUTS {
        let (count, most) = (texts.len(), limits::INPUTS);
        return Err(Fault::field(
            inputs[0].name.clone(),
            format!("there are {count} texts; there must be 1 to {most}"),
        ));
    }
    let second = inputs.get(1).map(Tensor::texts).transpose()?;
    if second.as_ref().is_some_and(|second| second.len() != texts.len()) {
        let message =
            format!("{} must have as many texts as {}", inputs[1].described(), inputs[0].described());
        return Err(Fault::field(inputs[1].name.clone(), message));
    }
    let truncation = if truncate { Truncation::End } else { Truncation::Refuse };
    let length = Length { tokens: max_tokens, ..Length::of_model(truncation) };
    let mut rows = Vec::with_capacity(texts.len());
    for (at, text) in texts.iter().enumerate() {
        let input = match &second {
            None => TextInput::Text((*text).to_owned()),
            Some(second) => TextInput::Pair((*text).to_owned(), second[at].to_owned()),
        };
        rows.push(reader.input(&inputs[0].name, &input, &Reading::within(length))?);
    }
    let width = rows.iter().map(|row| row.tokens.len()).max().unwrap_or(0);
    let tensor = |name: &String| {
        let mut raw = Vec::with_capacity(rows.len() * width * 8);
        for row in &rows {
            for at in 0..width {
                let number = match (name.as_str(), at < row.tokens.len()) {
                    (_, false) => 0,
                    ("input_ids", true) => i64::from(row.tokens[at]),
                    ("attention_mask", true) => 1,
                    (_, true) => row.types.get(at).map_or(0, |kind| i64::from(*kind)),
                };
                raw.extend_from_slice(&number.to_le_bytes());
            }
        }
        let shape = vec![rows.len(), width];
        Tensor::raw(name.clone(), Datatype::Int64, shape, raw.into()).map_err(Fault::internal)
    };
    outputs.iter().map(tensor).collect()
}
