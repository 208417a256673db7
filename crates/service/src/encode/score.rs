//! Scoring: how alike or relevant the two texts of each pair are.

use engine::encoder::Want;
use inference::{InputLength, Output, Score};
use text::TextOrPair;
use wire::Fault;

use super::call::{Call, Inputs};
use super::reader::{Reader, Reading, empty, length, text};
use super::rerank;
use super::similarity::{self, Pairs};
use crate::preparation::Admitted;

/// Answers a request for scores of pairs.
///
/// # Errors
/// Those of [`Call::encode`], and a model that does not compare texts.
pub(crate) async fn answer(call: &Call<'_>, score: Score, admitted: Admitted) -> Result<Output, Fault> {
    check(&score)?;
    let heads = call.encoding.heads.clone();
    let (scores, lengths) = match &heads.classifier {
        Some(classifier) if heads.ranks() => {
            let (activation, raw) = (classifier.activation, score.raw_scores);
            let read = move |reader: &Reader| together(reader, &score);
            let (logits, lengths) = call.encode::<Vec<f32>, _>(admitted, Want::Logits, read).await?;
            let scores = logits.into_iter().map(|logits| rerank::score(logits, activation, raw));
            (scores.collect(), lengths)
        }
        _ => similarity::scores(call, admitted, move |reader| apart(reader, &score)).await?,
    };
    Ok(Output::Scores(call.encoded(scores, lengths)))
}

pub(crate) fn check(score: &Score) -> Result<(), Fault> {
    if score.pairs.is_empty() {
        return Err(Fault::field("pairs", "there are no pairs of texts; there must be at least 1"));
    }
    for (at, (first, second)) in score.pairs.iter().enumerate() {
        for (side, text) in [first, second].into_iter().enumerate() {
            if text.is_empty() {
                return Err(empty(&format!("pairs[{at}][{side}]")));
            }
        }
    }
    rerank::no_chunks(score.length)
}

/// Both texts of each pair, read together.
fn together(reader: &Reader, score: &Score) -> Result<Inputs<Vec<InputLength>>, Fault> {
    let reading = Reading::within(score.length);
    let mut texts = Vec::with_capacity(score.pairs.len());
    let mut lengths = Vec::with_capacity(score.pairs.len());
    for (at, (first, second)) in score.pairs.iter().enumerate() {
        let input = reader.text(&format!("pairs[{at}]"), &TextOrPair::Pair(first, second), &reading)?;
        lengths.push(length(&input));
        texts.push(text(input, false));
    }
    let tokens = lengths.iter().map(|length| length.tokens).sum();
    Ok(Inputs { texts, tokens, rest: lengths })
}

/// Each text by itself. The length of a pair is that of both.
fn apart(reader: &Reader, score: &Score) -> Result<Inputs<Pairs<Vec<InputLength>>>, Fault> {
    let unpooled = reader.encoding.heads.prompts.unpooled;
    let reading = Reading { prompt: reader.prompt(&score.prompt)?, ..Reading::within(score.length) };
    let mut texts = Vec::with_capacity(2 * score.pairs.len());
    let mut lengths = Vec::with_capacity(score.pairs.len());
    let mut pairs = Vec::with_capacity(score.pairs.len());
    for (at, (first, second)) in score.pairs.iter().enumerate() {
        let mut sum = InputLength::default();
        for (side, one) in [first, second].into_iter().enumerate() {
            let input = reader.text(&format!("pairs[{at}][{side}]"), &TextOrPair::Text(one), &reading)?;
            let InputLength { tokens, truncated } = length(&input);
            sum = InputLength { tokens: sum.tokens + tokens, truncated: sum.truncated + truncated };
            texts.push(text(input, unpooled));
        }
        pairs.push((texts.len() - 2, texts.len() - 1));
        lengths.push(sum);
    }
    let tokens = lengths.iter().map(|length| length.tokens).sum();
    Ok(Inputs { texts, tokens, rest: Pairs { pairs, rest: lengths } })
}
