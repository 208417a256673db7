//! `POST /v1/embeddings` and `/embeddings`.

use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::response::Response;
use inference::{Embed, EmbedKind, Operation};
use wire::Fault;
use wire::embeddings::{EmbeddingsRequest, answer};
use wire::inputs::EncoderOptions;
use wire::vectors::VectorFormat;

use super::{Done, dense, run, usage, vectors_of, written};
use crate::state::State;

/// `POST /v1/embeddings`.
pub(crate) async fn embeddings(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answered(&state, request).await.unwrap_or_else(|fault| httpd::respond(&fault))
}

async fn answered(state: &State, request: Request) -> Result<Response, Fault> {
    let Done { output, asked: format, .. } =
        run(state, request, &[("inputs", "input")], |body| Ok(operation(EmbeddingsRequest::parse(body)?)))
            .await?;
    written(vectors_of(output)?, move |encoded| {
        answer(&encoded.model, dense(encoded), format, usage(encoded))
    })
    .await
}

fn operation(request: EmbeddingsRequest) -> (Operation, EncoderOptions, VectorFormat) {
    let EmbeddingsRequest { mut options, inputs, prompt, length, dimensions, normalize, format } = request;
    let model = options.model.take();
    let embed = Embed { model, inputs, kind: EmbedKind::Dense, prompt, length, dimensions, normalize };
    (Operation::Embed(embed), options, format)
}
