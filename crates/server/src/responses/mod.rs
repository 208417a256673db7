//! `/v1/responses`: made, streamed, kept, asked for again, cancelled.

mod inputs;
mod kept;
mod writer;

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Request, State as Shared};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use tokio::sync::Notify;
use wire::chat::Stream;
use wire::responses::Tools;
use wire::{Fault, ResponsesRequest};

use crate::auth::Client;
use crate::generation::Generation;
use crate::plan::{self, Form, Plan};
use crate::preparation::Work;
use crate::routes::{Begun, begin};
use crate::state::State;
use crate::{layers, stream};
pub(crate) use inputs::list as input_items;
pub(crate) use kept::Kept;
use kept::{Conversation, Draft};
use writer::{Facts, Object, Writer};

/// `POST /v1/responses`.
pub(crate) async fn create(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    made(state, request).await.unwrap_or_else(|fault| layers::respond(&fault))
}

async fn made(state: Arc<State>, request: Request) -> Result<Response, Fault> {
    let client = request.extensions().get::<Client>().copied().unwrap_or_default();
    let kept = state.kept.clone();
    let planned = move |work: &Work, body: &[u8]| read(work, body, &kept, client);
    let Begun { mut generation, .. } = begin(&state, request, planned).await?;
    let Form::Response(asked) = std::mem::replace(&mut generation.plan.form, Form::Chat) else {
        return Err(Fault::internal("a response was planned as something else"));
    };
    let Asked { store, background, stream, repeated, tools, conversation } = *asked;
    let id = format!("resp_{}", layers::new_id(&state));
    let model = generation.served.name().to_owned();
    let created = crate::served::unix_seconds();
    let object = Object { id: id.clone(), created, model, background, store, repeated, tools };
    let draft = store.then(|| Draft { kept: state.kept.clone(), id, client, conversation });
    if background {
        return Ok(in_background(&state, generation, object, draft, client));
    }
    let writer = Writer::new(object, draft);
    if stream {
        return Ok(stream::response(generation, Box::new(writer), state.options.ping));
    }
    Ok(json(writer.whole(generation).await?))
}

/// What a response is made from, beside its chat request. It lives as long as the answer takes, so it has text, not parsed
/// values, which take many times their text.
pub(crate) struct Asked {
    store: bool,
    background: bool,
    stream: bool,
    /// Fields that the response repeats, as JSON: `"a":1,"b":2`.
    repeated: String,
    tools: Tools,
    /// Without instructions: these are not handed on.
    conversation: Conversation,
}

fn read(served: &Work, body: &[u8], kept: &Kept, client: Client) -> Result<Plan, Fault> {
    let request = ResponsesRequest::parse(body)?;
    let before = request.previous.as_deref().map(|id| kept.conversation(id, client)).transpose()?;
    let mut conversation = before.unwrap_or_default();
    let mut chat = request.chat_request(&conversation.messages()?)?;
    chat.stream = Stream { on: request.stream, usage: false };
    request.messages.iter().for_each(|message| conversation.push(message));
    let ResponsesRequest { store, background, stream, repeated, tools, .. } = request;
    let repeated = writer::fields_text(&repeated);
    let asked = Asked { store, background, stream, repeated, tools, conversation };
    plan::conversation(served, chat, Form::Response(Box::new(asked)))
}

/// Computes on after the answer; the response is asked for under its id.
fn in_background(
    state: &Arc<State>,
    generation: Generation,
    object: Object,
    draft: Option<Draft>,
    client: Client,
) -> Response {
    let (cancel, begun) = (Arc::new(Notify::new()), object.text("in_progress", &Facts::default()));
    let answer = begun.json.clone();
    let cancelled = Some(cancel.clone());
    let before = draft.as_ref().map_or_else(Conversation::default, |draft| draft.conversation.clone());
    state.kept.put(object.id.clone(), client, begun, before, cancelled);
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
    json(answer)
}

/// `GET /v1/responses/{id}`.
pub(crate) async fn retrieve(
    Shared(state): Shared<Arc<State>>,
    Extension(client): Extension<Client>,
    Path(id): Path<String>,
) -> Response {
    answer(state.kept.object(&id, client))
}

/// `/v1/conversations`: said rather than found missing.
pub(crate) async fn no_conversations() -> Response {
    layers::respond(&Fault::no_conversations())
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

fn answer(outcome: Result<Arc<str>, Fault>) -> Response {
    outcome.map_or_else(|fault| layers::respond(&fault), |object| json(object.to_string()))
}

fn json(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}
