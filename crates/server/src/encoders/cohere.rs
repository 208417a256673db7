//! `POST /v1/embed` and `/v2/embed`, Cohere's.

use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::response::Response;
use inference::{Embed, EmbedKind, Operation, TextInput};
use wire::Fault;
use wire::cohere::{CohereEmbedRequest, answer};
use wire::inputs::EncoderOptions;
use wire::vectors::VectorFormat;

use super::{Done, dense, run, usage, vectors_of, written};
use crate::faults;
use crate::state::State;

/// What the answer is to look like.
struct Asked {
    texts: Vec<String>,
    formats: Vec<VectorFormat>,
}

/// `POST /v1/embed`.
pub(crate) async fn embed_v1(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let made = answered(&state, request, "1", CohereEmbedRequest::parse_v1).await;
    made.unwrap_or_else(|fault| faults::cohere(&fault))
}

/// `POST /v2/embed`.
pub(crate) async fn embed_v2(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let made = answered(&state, request, "2", CohereEmbedRequest::parse_v2).await;
    made.unwrap_or_else(|fault| faults::cohere(&fault))
}

async fn answered(
    state: &State,
    request: Request,
    version: &'static str,
    parse: fn(&[u8]) -> Result<CohereEmbedRequest, Fault>,
) -> Result<Response, Fault> {
    let Done { output, asked, context } =
        run(state, request, &[("inputs", "texts")], move |body| Ok(operation(parse(body)?))).await?;
    let id = context.request_id();
    written(vectors_of(output)?, move |encoded| {
        let vectors: Vec<&[f32]> = dense(encoded).collect();
        answer(&id, &vectors, &asked.texts, &asked.formats, usage(encoded), version)
    })
    .await
}

fn operation(request: CohereEmbedRequest) -> (Operation, EncoderOptions, Asked) {
    let CohereEmbedRequest { mut options, texts, prompt, length, dimensions, formats } = request;
    let embed = Embed {
        model: options.model.take(),
        // The answer repeats the texts.
        inputs: texts.iter().cloned().map(TextInput::Text).collect(),
        kind: EmbedKind::Dense,
        prompt,
        length,
        dimensions,
        normalize: None,
    };
    (Operation::Embed(embed), options, Asked { texts, formats })
}
