//! `POST /api/embed` and `/api/embeddings`.

use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::response::Response;
use inference::{Embed, EmbedKind, Encoded, InputPrompt, Operation, Output, Tokenize};
use wire::Fault;
use wire::inputs::EncoderOptions;
use wire::ollama::{KeepAlive, Metrics, OllamaEmbedRequest, embed_answer, embeddings_answer};

use super::models;
use crate::encoders::{Done, Names, dense, run, vectors_of, written};
use crate::faults;
use crate::state::State;

/// What is asked beside the operation.
struct Asked {
    /// The model's name, as the request has it.
    model: Option<String>,
    keep_alive: Option<KeepAlive>,
    /// Whether there is no text.
    loads: bool,
}

/// `POST /api/embed`.
pub(crate) async fn embed(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answered(&state, request, true).await.unwrap_or_else(|fault| faults::ollama(&fault))
}

/// `POST /api/embeddings`.
pub(crate) async fn embeddings(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answered(&state, request, false).await.unwrap_or_else(|fault| faults::ollama(&fault))
}

async fn answered(state: &State, request: Request, several: bool) -> Result<Response, Fault> {
    let parse = if several { OllamaEmbedRequest::parse_embed } else { OllamaEmbedRequest::parse_embeddings };
    let make = move |body: &[u8]| Ok(operation(parse(body)?, several));
    let names: Names = if several { &[("inputs", "input")] } else { &[("inputs[0]", "prompt")] };
    let Done { output, asked, context } = run(state, request, names, make).await?;
    let Asked { model, keep_alive, loads } = asked;
    let name = model.as_deref();
    if loads && keep_alive.is_some_and(KeepAlive::unloads) {
        models::unload(state, name, &context)?;
    } else {
        models::keep(state, name, keep_alive, &context)?;
    }
    let encoded = match output {
        Output::Embeddings(_) => vectors_of(output)?,
        _ => {
            let model = models::name_of(state, name)?;
            let fingerprint = Arc::from("");
            Encoded { model, fingerprint, results: Vec::new(), lengths: Vec::new() }
        }
    };
    written(encoded, move |encoded| {
        let name = model.as_deref().unwrap_or(&encoded.model);
        if !several {
            return embeddings_answer(dense(encoded).next().unwrap_or_default());
        }
        let total = Metrics::nanoseconds(context.began().elapsed());
        let load = Metrics::nanoseconds(context.model_wait());
        embed_answer(name, dense(encoded), total, load, encoded.tokens())
    })
    .await
}

/// A request without a text asks for the tokens of an empty one, for which the model must be there too.
fn operation(request: OllamaEmbedRequest, several: bool) -> (Operation, EncoderOptions, Asked) {
    let OllamaEmbedRequest { mut options, inputs, length, dimensions, keep_alive } = request;
    let model = options.model.take();
    let asked = Asked { model: model.clone(), keep_alive, loads: inputs.is_empty() };
    let operation = if inputs.is_empty() {
        Operation::Tokenize(Tokenize::Encode { model, text: String::new(), wrapped: false })
    } else {
        let prompt = InputPrompt::Default;
        // The older endpoint gives vectors as the model makes them.
        let normalize = several.then_some(true);
        Operation::Embed(Embed {
            model,
            inputs,
            kind: EmbedKind::Dense,
            prompt,
            length,
            dimensions,
            normalize,
        })
    };
    (operation, options, asked)
}
