//! `/v1/responses`: made, streamed, kept, asked for again, cancelled.

mod kept;
mod writer;

use std::sync::Arc;

use axum::extract::{Path, Request, State as Shared};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use tokio::sync::Notify;
use wire::chat::Stream;
use wire::{ChatRequest, Fault, ResponsesRequest};

use crate::auth::Client;
use crate::generation::Generation;
use crate::plan::{self, Form, Plan};
use crate::routes::{Begun, begin};
use crate::state::State;
use crate::{Served, layers, stream};
use kept::Draft;
pub(crate) use kept::Kept;
use writer::{Object, Writer};

/// `POST /v1/responses`.
pub(crate) async fn create(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    made(state, request).await.unwrap_or_else(|fault| layers::respond(&fault))
}

async fn made(state: Arc<State>, request: Request) -> Result<Response, Fault> {
    let client = request.extensions().get::<Client>().copied().unwrap_or_default();
    let kept = state.kept.clone();
    let planned = move |served: &Served, body: &[u8]| read(served, body, &kept, client);
    let Begun { mut generation, .. } = begin(&state, request, planned).await?;
    let Form::Response(asked) = std::mem::replace(&mut generation.plan.form, Form::Chat) else {
        return Err(Fault::internal("a response was planned as something else"));
    };
    let Asked { request, conversation } = *asked;
    let id = format!("resp_{}", layers::new_id(&state));
    let model = generation.served.name().to_owned();
    let object = Object::new(id.clone(), crate::served::unix_seconds(), model, &request);
    let draft = request.store.then(|| Draft {
        kept: state.kept.clone(),
        id: id.clone(),
        client,
        messages: conversation,
    });
    if request.background {
        return Ok(in_background(&state, generation, object, draft, client));
    }
    let writer = Writer::new(object, draft);
    if request.stream {
        return Ok(stream::response(generation, Box::new(writer), state.options.ping));
    }
    Ok(Json(writer.whole(generation).await?).into_response())
}

/// What a response is made from, beside its chat request.
pub(crate) struct Asked {
    request: ResponsesRequest,
    /// Without instructions: these are not handed on.
    conversation: Vec<serde_json::Value>,
}

fn read(served: &Served, body: &[u8], kept: &Kept, client: Client) -> Result<Plan, Fault> {
    let request = ResponsesRequest::parse(body)?;
    let before = request.previous.as_deref().map(|id| kept.conversation(id, client)).transpose()?;
    let before = before.map_or_else(Vec::new, |messages| messages.to_vec());
    let mut chat = ChatRequest::read(&request.chat(&before))?;
    chat.stream = Stream { on: request.stream, usage: false };
    let conversation = before.into_iter().chain(request.messages.iter().cloned()).collect();
    plan::conversation(served, chat, Form::Response(Box::new(Asked { request, conversation })))
}

/// Computes on after the answer; the response is asked for under its id.
fn in_background(
    state: &Arc<State>,
    generation: Generation,
    object: Object,
    draft: Option<Draft>,
    client: Client,
) -> Response {
    let (cancel, json) = (Arc::new(Notify::new()), object.json("in_progress"));
    let cancelled = Some(cancel.clone());
    state.kept.put(object.id().to_owned(), client, json.clone(), Vec::new(), cancelled);
    let writer = Writer::new(object, draft);
    // Bounded: the generation holds its places until it ends.
    tokio::spawn(async move {
        tokio::select! {
            // Dropped, the generation is cancelled.
            () = cancel.notified() => {}
            // How it ended, is kept.
            _ = writer.whole(generation) => {}
        }
    });
    Json(json).into_response()
}

/// `GET /v1/responses/{id}`.
pub(crate) async fn retrieve(
    Shared(state): Shared<Arc<State>>,
    Extension(client): Extension<Client>,
    Path(id): Path<String>,
) -> Response {
    answer(state.kept.object(&id, client))
}

/// `POST /v1/responses/{id}/cancel`.
pub(crate) async fn cancel(
    Shared(state): Shared<Arc<State>>,
    Extension(client): Extension<Client>,
    Path(id): Path<String>,
) -> Response {
    answer(state.kept.cancel(&id, client))
}

/// `DELETE /v1/responses/{id}`.
pub(crate) async fn delete(
    Shared(state): Shared<Arc<State>>,
    Extension(client): Extension<Client>,
    Path(id): Path<String>,
) -> Response {
    answer(state.kept.delete(&id, client))
}

fn answer(outcome: Result<serde_json::Value, Fault>) -> Response {
    outcome.map_or_else(|fault| layers::respond(&fault), |object| Json(object).into_response())
}
