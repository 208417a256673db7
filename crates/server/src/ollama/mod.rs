//! Ollama's API: `/api/chat`, `/api/generate`, `/api/embed` and `/api/embeddings`, and what lists and shows models.

mod answer;
mod embed;
mod models;
mod writer;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State as Shared};
use axum::response::Response;
use inference::{Generate, Generation, Operation, Output, RequestContext, Tokenize};
use service::Takes;
use wire::Fault;
use wire::ollama::{Ask, KeepAlive, OllamaRequest};

use crate::faults;
use crate::requests::{Parsed, parsed};
use crate::state::State;
use crate::stream;
use answer::{Wanted, loaded, whole};

pub(crate) use embed::{embed, embeddings};
pub(crate) use models::{ps, show, tags};

/// `POST /api/chat`.
pub(crate) async fn chat(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answered(&state, request, true).await.unwrap_or_else(|fault| faults::ollama(&fault))
}

/// `POST /api/generate`.
pub(crate) async fn generate(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    answered(&state, request, false).await.unwrap_or_else(|fault| faults::ollama(&fault))
}

/// `GET /`, where the page is not served.
pub(crate) async fn running() -> &'static str {
    "Ollama is running"
}

/// What is asked beside the operation.
struct Asked {
    wanted: Wanted,
    loads: bool,
    keep_alive: Option<KeepAlive>,
    num_ctx: Option<usize>,
    thinks: bool,
}

/// One request, from body to answer.
async fn answered(state: &State, request: Request, chat: bool) -> Result<Response, Fault> {
    let read = if chat { OllamaRequest::parse_chat } else { OllamaRequest::parse_generate };
    let make = move |body: &[u8]| Ok(operation(read(body)?, chat));
    let Parsed { request, admitted, asked } = parsed(state, request, Takes::Answers, make).await?;
    let Asked { mut wanted, loads, keep_alive, num_ctx, thinks } = asked;
    let context = request.context.clone();
    wanted.began = context.began();
    let name = wanted.model.as_deref();
    if thinks {
        models::check_thinks(state, name, &context).await?;
    }
    if loads && keep_alive.is_some_and(KeepAlive::unloads) {
        let model = models::unload(state, name, &context)?;
        return Ok(loaded(&wanted, &model, "unload"));
    }
    let output = state.service.answer(request, admitted).await?;
    wanted.loading = context.model_wait();
    models::keep(state, name, keep_alive, &context)?;
    match output {
        Output::Generation(generation) => {
            warn_of_context(num_ctx, &generation, &context);
            if wanted.streamed {
                let writer = writer::Writer::new(wanted);
                return Ok(stream::response(generation, Box::new(writer), state.ping));
            }
            whole(generation, &wanted).await
        }
        _ => Ok(loaded(&wanted, &models::name_of(state, name)?, "load")),
    }
}

/// What a request asks of the model. One that has nothing to be answered asks for the tokens of an empty text, for which the
/// model must be there too.
fn operation(request: OllamaRequest, chat: bool) -> (Operation, Asked) {
    let OllamaRequest { model, ask, keep_alive, num_ctx, thinks, streamed, logprobs } = request;
    let loads = ask == Ask::Load;
    let operation = match ask {
        Ask::Load => {
            let text = String::new();
            Operation::Tokenize(Tokenize::Encode { model: model.clone(), text, wrapped: false })
        }
        Ask::Chat(request) => {
            let field = if chat { "messages" } else { "prompt" };
            Operation::Generate(Generate { field, ..Generate::chat(*request) })
        }
        Ask::Text(text) => Operation::Generate(Generate::text(*text)),
    };
    let wanted = Wanted { chat, model, streamed, logprobs, began: Instant::now(), loading: Duration::ZERO };
    (operation, Asked { wanted, loads, keep_alive, num_ctx, thinks })
}

/// Tells a client that counts on more context than there is.
fn warn_of_context(num_ctx: Option<usize>, generation: &Generation, context: &RequestContext) {
    let there = generation.context;
    if let Some(wanted) = num_ctx.filter(|wanted| *wanted > there) {
        context.warn(format!("options.num_ctx is {wanted}; the model was loaded with {there} tokens"));
    }
}
