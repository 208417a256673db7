//! The endpoints of encoders: each dialect's requests as one operation, and the operation's output in the dialect's words.
//!
//! Every answer says in its headers what the numbers depend on and how many tokens were cut.

mod cohere;
mod entities;
mod huggingface;
mod info;
mod openai;
mod rerank;
mod tei;
mod vllm;

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use inference::{Embedding, Encoded, Operation, Output, RequestContext};
use service::Takes;
use wire::inputs::EncoderOptions;
use wire::vectors::push_json;
use wire::{EncoderUsage, Fault, limits};

use crate::requests::{Parsed, parsed};
use crate::state::State;

pub(crate) use cohere::{embed_v1, embed_v2};
pub(crate) use entities::entities;
pub(crate) use huggingface::{root, text_classification, token_classification};
pub(crate) use info::info;
pub(crate) use openai::embeddings;
pub(crate) use rerank::{rerank, rerank_v1, rerank_v2};
pub(crate) use tei::{embed, embed_all, embed_sparse, predict, similarity};
pub(crate) use vllm::{classify, pooling, score};

/// The header with [`Encoded::fingerprint`].
const FINGERPRINT: HeaderName = HeaderName::from_static("x-embedding-fingerprint");
/// The header with the number of tokens that were cut.
const TRUNCATED: HeaderName = HeaderName::from_static("x-truncated-tokens");
/// Numbers that are written on the async threads; more of them would hold up other requests.
const WRITTEN_INLINE: usize = 16_384;

/// Names of an operation's fields, and what a dialect calls them.
pub(crate) type Names = &'static [(&'static str, &'static str)];

/// The output of an operation, and what its answer is to look like.
pub(crate) struct Done<A> {
    pub(crate) output: Output,
    pub(crate) asked: A,
    pub(crate) context: Arc<RequestContext>,
}

/// Reads a body, has its operation done, and gives its warnings to the client. Faults get the dialect's names of fields.
pub(crate) async fn run<A: Send + 'static>(
    state: &State,
    request: Request,
    names: Names,
    make: impl FnOnce(&[u8]) -> Result<(Operation, EncoderOptions, A), Fault> + Send + 'static,
) -> Result<Done<A>, Fault> {
    let make = move |body: &[u8]| {
        let (operation, options, asked) = make(body)?;
        Ok((operation, (options, asked)))
    };
    let Parsed { mut request, admitted, asked } = parsed(state, request, Takes::Texts, make).await?;
    let (options, asked) = asked;
    let context = request.context.clone();
    options.warnings.into_iter().for_each(|warning| context.warn(warning));
    let own_limit = options.timeout_s.map(service::whole_ms);
    request.time_limit = match (request.time_limit, own_limit) {
        (Some(header), Some(own)) => Some(header.min(own)),
        (header, own) => header.or(own),
    };
    let rename = |fault: Fault| names.iter().fold(fault, |fault, (from, to)| fault.renamed(from, to));
    let output = state.service.answer(request, admitted).await.map_err(rename)?;
    Ok(Done { output, asked, context })
}

fn unexpected() -> Fault {
    Fault::internal("an encoder's operation was asked for, and something else came")
}

pub(crate) fn vectors_of(output: Output) -> Result<Encoded<Embedding>, Fault> {
    match output {
        Output::Embeddings(encoded) => Ok(encoded),
        _ => Err(unexpected()),
    }
}

fn scores_of(output: Output) -> Result<Encoded<f32>, Fault> {
    match output {
        Output::Scores(encoded) => Ok(encoded),
        _ => Err(unexpected()),
    }
}

/// Labels, and scores of them for each input.
type Classes = (Arc<[String]>, Encoded<Vec<f32>>);

fn classes_of(output: Output) -> Result<Classes, Fault> {
    match output {
        Output::Classes { labels, scores } => Ok((labels, scores)),
        _ => Err(unexpected()),
    }
}

/// Dense vectors, in the inputs' order; what is none has no numbers.
pub(crate) fn dense(encoded: &Encoded<Embedding>) -> impl Iterator<Item = &[f32]> {
    encoded.results.iter().map(|result| match result {
        Embedding::Dense(values) => values.as_slice(),
        Embedding::Tokens { .. } | Embedding::Sparse(_) => &[],
    })
}

fn usage<T>(encoded: &Encoded<T>) -> EncoderUsage {
    EncoderUsage::new(encoded.tokens(), encoded.truncated())
}

fn numbers(encoded: &Encoded<Embedding>) -> usize {
    let count = |result: &Embedding| match result {
        Embedding::Dense(values) | Embedding::Tokens { values, .. } => values.len(),
        Embedding::Sparse(entries) => entries.len(),
    };
    encoded.results.iter().map(count).sum()
}

/// The answer with vectors, which `write` makes off the async threads if there are many numbers.
pub(crate) async fn written(
    encoded: Encoded<Embedding>,
    write: impl FnOnce(&Encoded<Embedding>) -> Vec<u8> + Send + 'static,
) -> Result<Response, Fault> {
    let numbers = numbers(&encoded);
    wire::vectors::check_numbers(numbers, limits::VECTOR_NUMBERS)?;
    if numbers <= WRITTEN_INLINE {
        let json = write(&encoded);
        return Ok(response(&encoded, json));
    }
    let writing = tokio::task::spawn_blocking(move || {
        let json = write(&encoded);
        response(&encoded, json)
    });
    writing.await.map_err(|error| Fault::internal(format!("an answer was not written: {error}")))
}

/// A JSON answer, with the headers of every encoder's answer.
fn response<T>(encoded: &Encoded<T>, json: Vec<u8>) -> Response {
    let mut response = ([(header::CONTENT_TYPE, "application/json")], json).into_response();
    let headers = response.headers_mut();
    if let Ok(fingerprint) = HeaderValue::from_str(&encoded.fingerprint) {
        headers.insert(FINGERPRINT, fingerprint);
    }
    headers.insert(TRUNCATED, HeaderValue::from(encoded.truncated()));
    response
}

/// As [`response`], of a value that serializes.
fn json<T, S: serde::Serialize + ?Sized>(encoded: &Encoded<T>, value: &S) -> Response {
    let mut out = Vec::new();
    push_json(&mut out, value);
    response(encoded, out)
}
