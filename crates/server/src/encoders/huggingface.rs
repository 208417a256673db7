//! Hugging Face's tasks: `POST /pipeline/text-classification` and `/pipeline/token-classification`, and `POST /`, which
//! does what the model is for. The other tasks have text-embeddings-inference's bodies.

use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::response::Response;
use inference::{
    Aggregation, Classify, ClassifyTokens, EmbedKind, Entity, Length, Operation, Output, Truncation,
};
use serde_json::Value;
use wire::Fault;
use wire::huggingface::{HfEntity, ScoreFunction, TextClassificationRequest, TokenClassificationRequest};
use wire::inputs::EncoderOptions;
use wire::tei::{self as wire_tei, EmbedRequest, PredictRequest, SimilarityRequest};

use super::entities::entities_of;
use super::{Done, classes_of, json, run, scores_of, tei, vectors_of, written};
use crate::state::State;
use crate::{faults, tgi};

/// What the answer of a task is to look like.
enum Asked {
    /// A text is continued.
    Text(Box<tgi::Asked>),
    /// A list of vectors.
    Vectors,
    /// A list of scores.
    Similarities,
    /// text-embeddings-inference's labels; whether the inputs were a batch.
    Predictions(bool),
    /// Hugging Face's labels.
    Classes { function: Option<ScoreFunction>, top_k: Option<usize> },
    /// Entities.
    Entities { texts: Vec<String>, listed: bool, aggregated: bool },
}

type Made = (Operation, EncoderOptions, Asked);

/// `POST /pipeline/text-classification`.
pub(crate) async fn text_classification(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let read = |body: &[u8]| Ok(classification(TextClassificationRequest::parse(body)?));
    answered(&state, request, read).await
}

/// `POST /pipeline/token-classification`.
pub(crate) async fn token_classification(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let read = |body: &[u8]| Ok(of_tokens(TokenClassificationRequest::parse(body)?));
    answered(&state, request, read).await
}

/// `POST /`.
pub(crate) async fn root(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    if state.only_generates() {
        return tgi::root(&state, request).await;
    }
    let models = state.clone();
    answered(&state, request, move |body| by_model(&models, body)).await
}

async fn answered(
    state: &State,
    request: Request,
    read: impl FnOnce(&[u8]) -> Result<Made, Fault> + Send + 'static,
) -> Response {
    let made = async {
        let Done { output, asked, .. } = run(state, request, &[("texts", "inputs")], read).await?;
        said(state, output, asked).await
    };
    made.await.unwrap_or_else(|fault| faults::tei(&fault))
}

/// What a body of `POST /` asks of its model.
fn by_model(state: &State, body: &[u8]) -> Result<Made, Fault> {
    let value = wire::json::read(body)?;
    let model = value.get("model").and_then(Value::as_str);
    let can = |operation| state.can(model, operation);
    let compares =
        value.get("inputs").is_some_and(Value::is_object) && value["inputs"].get("source_sentence").is_some();
    if can("generate")? {
        let (generate, asked) = tgi::compat(body)?;
        let asked = Asked::Text(Box::new(asked));
        Ok((Operation::Generate(generate), EncoderOptions::default(), asked))
    } else if compares {
        let (operation, options) = tei::comparison(SimilarityRequest::parse(body)?);
        Ok((operation, options, Asked::Similarities))
    } else if can("classify_tokens")? {
        Ok(of_tokens(TokenClassificationRequest::parse(body)?))
    } else if can("embed")? {
        let (operation, options) = tei::embedding(EmbedRequest::parse(body)?, EmbedKind::Dense);
        Ok((operation, options, Asked::Vectors))
    } else if value.get("parameters").is_some() {
        // Hugging Face's client always sends them; text-embeddings-inference's bodies have none.
        Ok(classification(TextClassificationRequest::parse(body)?))
    } else {
        let (operation, options, listed) = tei::prediction(PredictRequest::parse(body)?);
        Ok((operation, options, Asked::Predictions(listed)))
    }
}

fn classification(request: TextClassificationRequest) -> Made {
    let TextClassificationRequest { mut options, inputs, function, top_k } = request;
    let classify = Classify {
        model: options.model.take(),
        inputs,
        // As transformers' pipeline.
        length: Length::of_model(Truncation::End),
        raw_scores: function.is_some(),
        labels: Vec::new(),
    };
    (Operation::Classify(classify), options, Asked::Classes { function, top_k })
}

fn of_tokens(request: TokenClassificationRequest) -> Made {
    let TokenClassificationRequest { mut options, texts, listed, aggregation, ignore_labels, length } =
        request;
    let model = options.model.take();
    let classify = ClassifyTokens { model, texts: texts.clone(), length, aggregation, ignore_labels };
    let aggregated = aggregation != Aggregation::None;
    (Operation::ClassifyTokens(classify), options, Asked::Entities { texts, listed, aggregated })
}

async fn said(state: &State, output: Output, asked: Asked) -> Result<Response, Fault> {
    match asked {
        Asked::Text(asked) => match output {
            Output::Generation(generation) => {
                Ok(tgi::said(state, generation, *asked).await.unwrap_or_else(|fault| faults::tgi(&fault)))
            }
            _ => Err(super::unexpected()),
        },
        Asked::Vectors => {
            written(vectors_of(output)?, |encoded| tei::written_as(encoded, EmbedKind::Dense)).await
        }
        Asked::Similarities => {
            let encoded = scores_of(output)?;
            Ok(json(&encoded, &encoded.results))
        }
        Asked::Predictions(listed) => {
            let (labels, encoded) = classes_of(output)?;
            Ok(tei::predictions(&labels, &encoded, listed))
        }
        Asked::Classes { function, top_k } => classes(output, function, top_k),
        Asked::Entities { texts, listed, aggregated } => entities(output, &texts, listed, aggregated),
    }
}

/// A list of labels for each text, also for a single one: the client takes the first.
fn classes(output: Output, function: Option<ScoreFunction>, top_k: Option<usize>) -> Result<Response, Fault> {
    let (labels, encoded) = classes_of(output)?;
    let of_text = |scores: &Vec<f32>| match function {
        Some(function) => wire_tei::predictions(&labels, &function.apply(scores), top_k),
        None => wire_tei::predictions(&labels, scores, top_k),
    };
    Ok(json(&encoded, &encoded.results.iter().map(of_text).collect::<Vec<_>>()))
}

fn entities(output: Output, texts: &[String], listed: bool, aggregated: bool) -> Result<Response, Fault> {
    let encoded = entities_of(output)?;
    let pairs = encoded.results.iter().zip(texts);
    let of_text =
        pairs.map(|(found, text)| found.iter().map(move |one| placed(one, text, aggregated)).collect());
    let mut all: Vec<Vec<HfEntity<'_>>> = of_text.collect();
    Ok(match all.pop() {
        Some(only) if !listed => json(&encoded, &only),
        last => {
            all.extend(last);
            json(&encoded, &all)
        }
    })
}

fn placed<'a>(entity: &'a Entity, text: &'a str, aggregated: bool) -> HfEntity<'a> {
    let label = entity.label.as_str();
    HfEntity {
        entity_group: aggregated.then_some(label),
        entity: (!aggregated).then_some(label),
        score: entity.score,
        index: (!aggregated).then_some(entity.token),
        word: text.get(entity.bytes.clone()).unwrap_or_default(),
        start: entity.chars.start,
        end: entity.chars.end,
    }
}
