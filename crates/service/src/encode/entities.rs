//! Token classification: entities in texts, as transformers' pipeline groups them, with places in bytes and characters.

use engine::encoder::Want;
use inference::{Aggregation, ClassifyTokens, Entity, InputLength, Output};
use text::{ClassifiedTokens, EncoderInput, EntityStrategy, TextEntity, TextOrPair};
use wire::Fault;

use super::call::{Call, Inputs};
use super::numbers::softmax;
use super::reader::{Reader, Reading, length, text};
use super::rerank::no_chunks;
use crate::preparation::Admitted;

/// A text and where its tokens are.
struct Located {
    text: String,
    /// Byte range of each token.
    offsets: Vec<(u32, u32)>,
    special: Vec<bool>,
    subword: Vec<bool>,
}

/// Answers a request for entities.
///
/// # Errors
/// Those of [`Call::encode`], and a model without a token classifier.
pub(crate) async fn answer(
    call: &Call<'_>,
    classify: ClassifyTokens,
    admitted: Admitted,
) -> Result<Output, Fault> {
    if classify.texts.is_empty() {
        return Err(Fault::field("texts", "texts is an empty list; it must have at least 1 text"));
    }
    no_chunks(classify.length)?;
    let labels = call.encoding.heads.token_labels.clone();
    if labels.is_empty() {
        return Err(call.unable("classify tokens"));
    }
    let (strategy, ignored) = (strategy(classify.aggregation), classify.ignore_labels.clone());
    let read = move |reader: &Reader| read(reader, classify);
    let (logits, (texts, lengths)) = call.encode::<Vec<f32>, _>(admitted, Want::TokenLogits, read).await?;
    let numbers = logits.iter().map(Vec::len).sum();
    let results = call.compute(numbers, move || {
        let found = |(located, mut logits): (&Located, Vec<f32>)| {
            logits.chunks_exact_mut(labels.len()).for_each(softmax);
            let tokens = ClassifiedTokens {
                text: &located.text,
                scores: &logits,
                offsets: &located.offsets,
                special: &located.special,
                subword: &located.subword,
            };
            text::entities(&tokens, &labels, strategy, &ignored).into_iter().map(entity).collect()
        };
        texts.iter().zip(logits).map(found).collect()
    });
    Ok(Output::Entities(call.encoded(results.await?, lengths)))
}

type Read = (Vec<Located>, Vec<InputLength>);

fn read(reader: &Reader, classify: ClassifyTokens) -> Result<Inputs<Read>, Fault> {
    let reading = Reading { offsets: true, ..Reading::within(classify.length) };
    let (mut texts, mut located, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    for (at, one) in classify.texts.into_iter().enumerate() {
        let input = reader.text(&format!("texts[{at}]"), &TextOrPair::Text(&one), &reading)?;
        lengths.push(length(&input));
        let EncoderInput { offsets, special, subword, .. } = input.clone();
        located.push(Located { text: one, offsets, special, subword });
        texts.push(text(input, false));
    }
    let tokens = lengths.iter().map(|length| length.tokens).sum();
    Ok(Inputs { texts, tokens, rest: (located, lengths) })
}

fn strategy(aggregation: Aggregation) -> EntityStrategy {
    match aggregation {
        Aggregation::None => EntityStrategy::None,
        Aggregation::Simple => EntityStrategy::Simple,
        Aggregation::First => EntityStrategy::First,
        Aggregation::Max => EntityStrategy::Max,
        Aggregation::Average => EntityStrategy::Average,
    }
}

fn entity(TextEntity { label, score, token, bytes, chars }: TextEntity) -> Entity {
    Entity { label, score, token, bytes, chars }
}
