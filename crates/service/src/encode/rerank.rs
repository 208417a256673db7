//! Reranking: the relevance of documents to a query, by a cross-encoder or by an embedding model's vectors.

use engine::encoder::{Text, Want};
use inference::{InputLength, InputPrompt, Length, Output, Rerank, Truncation};
use text::{PairTruncation, TextOrPair};
use wire::Fault;

use super::call::{Call, Inputs};
use super::numbers::activate;
use super::reader::{Reader, Reading, empty, length, text};
use super::similarity::{self, Pairs};
use crate::preparation::Admitted;

/// Names of the prompts that models have for queries, and for documents.
const QUERY_PROMPTS: InputPrompt = InputPrompt::FirstOf(&["query", "s2p_query", "retrieval.query"]);
const DOCUMENT_PROMPTS: InputPrompt = InputPrompt::FirstOf(&["document", "passage", "retrieval.passage"]);

/// Answers a request for the relevance of documents.
///
/// # Errors
/// Those of [`Call::encode`], and a model that does not compare texts.
pub(crate) async fn answer(call: &Call<'_>, rerank: Rerank, admitted: Admitted) -> Result<Output, Fault> {
    check(&rerank)?;
    let heads = call.encoding.heads.clone();
    let (scores, lengths) = match &heads.classifier {
        Some(classifier) if heads.ranks() => {
            let (activation, raw) = (classifier.activation, rerank.raw_scores);
            let read = move |reader: &Reader| pairs(reader, &rerank);
            let (logits, lengths) = call.encode::<Vec<f32>, _>(admitted, Want::Logits, read).await?;
            (logits.into_iter().map(|logits| score(logits, activation, raw)).collect(), lengths)
        }
        _ => similarity::scores(call, admitted, move |reader| apart(reader, &rerank)).await?,
    };
    Ok(Output::Scores(call.encoded(scores, lengths)))
}

/// The score of a cross-encoder's logit.
pub(crate) fn score(mut logits: Vec<f32>, activation: super::Activation, raw: bool) -> f32 {
    if !raw {
        activate(&mut logits, activation);
    }
    logits.first().copied().unwrap_or_default()
}

pub(crate) fn check(rerank: &Rerank) -> Result<(), Fault> {
    if rerank.query.is_empty() {
        return Err(empty("query"));
    }
    if rerank.documents.is_empty() {
        return Err(Fault::field("documents", "documents is an empty list; it must have at least 1 text"));
    }
    if let Some(at) = rerank.documents.iter().position(String::is_empty) {
        return Err(empty(&format!("documents[{at}]")));
    }
    if rerank.document_tokens == Some(0) {
        return Err(Fault::field("max_tokens_per_doc", "max_tokens_per_doc is 0; it must be at least 1"));
    }
    no_chunks(rerank.length)
}

/// Refuses to encode in parts what is scored as a whole.
pub(crate) fn no_chunks(length: Length) -> Result<(), Fault> {
    match length.truncation {
        Truncation::Chunk => Err(Fault::field(
            "truncate",
            "encoding in parts is for embeddings; cut longer inputs, or send their parts",
        )),
        Truncation::Refuse | Truncation::End | Truncation::Start => Ok(()),
    }
}

/// Query and document of each pair, read together.
fn pairs(reader: &Reader, rerank: &Rerank) -> Result<Inputs<Vec<InputLength>>, Fault> {
    let reading = Reading {
        prompt: None,
        length: rerank.length,
        pair: PairTruncation::OnlySecond,
        second: rerank.document_tokens,
        offsets: false,
    };
    let mut texts: Vec<Text> = Vec::with_capacity(rerank.documents.len());
    let mut lengths = Vec::with_capacity(rerank.documents.len());
    for (at, document) in rerank.documents.iter().enumerate() {
        let pair = TextOrPair::Pair(&rerank.query, document);
        let input = reader.text(&format!("documents[{at}]"), &pair, &reading)?;
        lengths.push(length(&input));
        texts.push(text(input, false));
    }
    let tokens = lengths.iter().map(|length| length.tokens).sum();
    Ok(Inputs { texts, tokens, rest: lengths })
}

/// The query and each document by itself.
fn apart(reader: &Reader, rerank: &Rerank) -> Result<Inputs<Pairs<Vec<InputLength>>>, Fault> {
    let unpooled = reader.encoding.heads.prompts.unpooled;
    let reading = |prompt, length| Reading { prompt, ..Reading::within(length) };
    let query = reading(reader.prompt(&QUERY_PROMPTS)?, rerank.length);
    let mut documents = reading(reader.prompt(&DOCUMENT_PROMPTS)?, rerank.length);
    if let Some(most) = rerank.document_tokens {
        // Longer documents are cut, also where longer pairs would be refused.
        let tokens = Some(rerank.length.tokens.map_or(most, |tokens| tokens.min(most)));
        let truncation = match rerank.length.truncation {
            Truncation::Start => Truncation::Start,
            Truncation::Refuse | Truncation::End | Truncation::Chunk => Truncation::End,
        };
        documents.length = Length { tokens, truncation };
    }
    let query = reader.text("query", &TextOrPair::Text(&rerank.query), &query)?;
    let mut tokens = query.tokens.len();
    let mut texts = vec![text(query, unpooled)];
    let mut lengths = Vec::with_capacity(rerank.documents.len());
    for (at, document) in rerank.documents.iter().enumerate() {
        let input = reader.text(&format!("documents[{at}]"), &TextOrPair::Text(document), &documents)?;
        lengths.push(length(&input));
        tokens += input.tokens.len();
        texts.push(text(input, unpooled));
    }
    let pairs = (1..texts.len()).map(|document| (0, document)).collect();
    Ok(Inputs { texts, tokens, rest: Pairs { pairs, rest: lengths } })
}
