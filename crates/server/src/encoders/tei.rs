//! `POST /embed`, `/embed_all`, `/embed_sparse`, `/predict` and `/similarity`, text-embeddings-inference's.

use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::response::Response;
use inference::{Classify, Embed, EmbedKind, Embedding, Encoded, Operation, Score};
use wire::Fault;
use wire::inputs::EncoderOptions;
use wire::tei::{self, EmbedRequest, PredictRequest, SimilarityRequest, SparseValue};
use wire::vectors::push_json;

use super::{Done, classes_of, dense, json, run, scores_of, vectors_of, written};
use crate::faults;
use crate::state::State;

/// `POST /embed`.
pub(crate) async fn embed(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    vectors(&state, request, EmbedKind::Dense).await.unwrap_or_else(|fault| faults::tei(&fault))
}

/// `POST /embed_all`.
pub(crate) async fn embed_all(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    vectors(&state, request, EmbedKind::Tokens).await.unwrap_or_else(|fault| faults::tei(&fault))
}

/// `POST /embed_sparse`.
pub(crate) async fn embed_sparse(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    vectors(&state, request, EmbedKind::Sparse).await.unwrap_or_else(|fault| faults::tei(&fault))
}

async fn vectors(state: &State, request: Request, kind: EmbedKind) -> Result<Response, Fault> {
    let make = move |body: &[u8]| {
        let (operation, options) = embedding(EmbedRequest::parse(body)?, kind);
        Ok((operation, options, ()))
    };
    let Done { output, .. } = run(state, request, &[], make).await?;
    written(vectors_of(output)?, move |encoded| written_as(encoded, kind)).await
}

/// The operation of an embed request.
pub(super) fn embedding(request: EmbedRequest, kind: EmbedKind) -> (Operation, EncoderOptions) {
    let EmbedRequest { mut options, inputs, prompt, length, dimensions, normalize } = request;
    let model = options.model.take();
    // Only dense vectors are scaled and cut.
    let normalize = (kind == EmbedKind::Dense).then_some(normalize);
    let dimensions = dimensions.filter(|_| kind == EmbedKind::Dense);
    (Operation::Embed(Embed { model, inputs, kind, prompt, length, dimensions, normalize }), options)
}

/// The answer of an embed request.
pub(super) fn written_as(encoded: &Encoded<Embedding>, kind: EmbedKind) -> Vec<u8> {
    match kind {
        EmbedKind::Dense => tei::vectors(dense(encoded)),
        EmbedKind::Tokens => tei::token_vectors(encoded.results.iter().map(|result| match result {
            Embedding::Tokens { width, values } => (*width, values.as_slice()),
            Embedding::Dense(_) | Embedding::Sparse(_) => (1, &[][..]),
        })),
        EmbedKind::Sparse => {
            let value = |(index, value): &(u32, f32)| SparseValue { index: *index, value: *value };
            let entries = encoded.results.iter().map(|result| match result {
                Embedding::Sparse(entries) => entries.iter().map(value).collect(),
                Embedding::Dense(_) | Embedding::Tokens { .. } => Vec::new(),
            });
            let mut out = Vec::new();
            push_json(&mut out, &entries.collect::<Vec<_>>());
            out
        }
    }
}

/// `POST /predict`.
pub(crate) async fn predict(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    predicted(&state, request).await.unwrap_or_else(|fault| faults::tei(&fault))
}

async fn predicted(state: &State, request: Request) -> Result<Response, Fault> {
    let make = |body: &[u8]| Ok(prediction(PredictRequest::parse(body)?));
    let Done { output, asked: listed, .. } = run(state, request, &[], make).await?;
    let (labels, encoded) = classes_of(output)?;
    Ok(predictions(&labels, &encoded, listed))
}

/// The operation of a predict request, and whether its answer is a batch.
pub(super) fn prediction(request: PredictRequest) -> (Operation, EncoderOptions, bool) {
    let PredictRequest { mut options, inputs, listed, length, raw_scores } = request;
    let model = options.model.take();
    let classify = Classify { model, inputs, length, raw_scores, labels: Vec::new() };
    (Operation::Classify(classify), options, listed)
}

/// The answer of a predict request.
pub(super) fn predictions(labels: &[String], encoded: &Encoded<Vec<f32>>, listed: bool) -> Response {
    let of = |scores: &Vec<f32>| tei::predictions(labels, scores, None);
    match encoded.results.as_slice() {
        [only] if !listed => json(encoded, &of(only)),
        all => json(encoded, &all.iter().map(of).collect::<Vec<_>>()),
    }
}

/// `POST /similarity`.
pub(crate) async fn similarity(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    compared(&state, request).await.unwrap_or_else(|fault| faults::tei(&fault))
}

async fn compared(state: &State, request: Request) -> Result<Response, Fault> {
    let make = |body: &[u8]| {
        let (operation, options) = comparison(SimilarityRequest::parse(body)?);
        Ok((operation, options, ()))
    };
    let Done { output, .. } = run(state, request, &[], make).await?;
    let encoded = scores_of(output)?;
    Ok(json(&encoded, &encoded.results))
}

/// The operation of a similarity request.
pub(super) fn comparison(request: SimilarityRequest) -> (Operation, EncoderOptions) {
    let SimilarityRequest { mut options, source, sentences, prompt, length } = request;
    let model = options.model.take();
    let pairs = sentences.into_iter().map(|sentence| (source.clone(), sentence)).collect();
    (Operation::Score(Score { model, pairs, length, prompt, raw_scores: false }), options)
}
