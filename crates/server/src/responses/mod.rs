//! `/v1/responses`: made, streamed, kept, asked for again, cancelled.

mod background;
mod draft;
mod inputs;
mod pending;
mod writer;

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Request, State as Shared};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use inference::{Client, Generate, Generation, RequestContext};
use service::{Conversation, ResponseStore, unix_seconds};
use tokio::sync::Notify;
use wire::chat::Stream;
use wire::responses::Tools;
use wire::{Fault, ResponsesRequest};

use crate::jobs::ResponseId;
use crate::requests::{Begun, begin};
use crate::state::State;
use crate::stream;
use background::Taken;
use draft::Draft;
pub(crate) use inputs::list as input_items;
use writer::{Facts, Object, Writer};

/// `POST /v1/responses`.
pub(crate) async fn create(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let answered = async {
        match background::accept(&state, request).await? {
            Taken::Job(object) => Ok(json_response(object)),
            Taken::Now(request) => made(state, *request).await,
        }
    };
    answered.await.unwrap_or_else(|fault| httpd::respond(&fault))
}

async fn made(state: Arc<State>, request: Request) -> Result<Response, Fault> {
    let client = httpd::client(&request);
    let of_job = request.extensions().get::<ResponseId>().cloned();
    let store = state.service.responses().clone();
    let read = {
        let store = store.clone();
        move |body: &[u8]| read(body, &store, client)
    };
    let Begun { generation, asked, .. } = begin(&state, request, read).await?;
    let Asked { keep, background, stream, repeated, tools, conversation } = asked;
    let is_job = of_job.is_some();
    let id = of_job.map_or_else(|| format!("resp_{}", httpd::new_id(&state.edge)), |ResponseId(id)| id);
    let model = generation.model.clone();
    let created = unix_seconds();
    let told = background || is_job;
    let object = Object { id: id.clone(), created, model, background: told, store: keep, repeated, tools };
    let draft = keep.then(|| Draft { store: store.clone(), id, client, conversation });
    if background {
        return Ok(in_background(&store, generation, object, draft, client));
    }
    let writer = Writer::new(object, draft);
    if stream {
        return Ok(stream::response(generation, Box::new(writer), state.ping));
    }
    Ok(json_response(writer.whole(generation).await?))
}

/// What a response is made from, beside its chat request. It lives as long as the answer takes, so it has text, not parsed
/// values, which take many times their text.
struct Asked {
    keep: bool,
    background: bool,
    stream: bool,
    /// Fields that the response repeats, as JSON: `"a":1,"b":2`.
    repeated: String,
    tools: Tools,
    /// Without instructions: these are not handed on.
    conversation: Conversation,
}

fn read(body: &[u8], store: &ResponseStore, client: Client) -> Result<(Generate, Asked), Fault> {
    let request = ResponsesRequest::parse(body)?;
    let before = request.previous.as_deref().map(|id| store.conversation(id, client)).transpose()?;
    let mut conversation = before.unwrap_or_default();
    let mut chat = request.chat_request(&conversation.messages()?)?;
    chat.stream = Stream { on: request.stream, usage: false };
    request.messages.iter().for_each(|message| conversation.push(message));
    let ResponsesRequest { store: keep, background, stream, repeated, tools, .. } = request;
    let repeated = writer::fields_text(&repeated);
    let asked = Asked { keep, background, stream, repeated, tools, conversation };
    Ok((Generate::chat(chat), asked))
}

/// Computes on after the answer; the response is asked for under its id.
fn in_background(
    store: &ResponseStore,
    generation: Generation,
    object: Object,
    draft: Option<Draft>,
    client: Client,
) -> Response {
    let (cancel, begun) = (Arc::new(Notify::new()), object.text("in_progress", &Facts::default()));
    let answer = begun.json.clone();
    let cancelled = Some(cancel.clone());
    let before = draft.as_ref().map_or_else(Conversation::default, |draft| draft.conversation.clone());
    store.put(object.id.clone(), client, begun, before, cancelled);
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
    json_response(answer)
}

/// `GET /v1/responses/{id}`.
pub(crate) async fn retrieve(
    Shared(state): Shared<Arc<State>>,
    Extension(context): Extension<Arc<RequestContext>>,
    Path(id): Path<String>,
) -> Response {
    let job = background::object(&state, &id, &context.key().unwrap_or_default()).await;
    one(job, || state.service.responses().object(&id, context.client()))
}

/// `/v1/conversations`: said rather than found missing.
pub(crate) async fn no_conversations() -> Response {
    httpd::respond(&Fault::no_conversations())
}

/// `POST /v1/responses/{id}/cancel`.
pub(crate) async fn cancel(
    Shared(state): Shared<Arc<State>>,
    Extension(context): Extension<Arc<RequestContext>>,
    Path(id): Path<String>,
) -> Response {
    let job = background::cancel(&state, &id, &context.key().unwrap_or_default()).await;
    one(job, || state.service.responses().cancel(&id, context.client()))
}

/// `DELETE /v1/responses/{id}`.
pub(crate) async fn delete(
    Shared(state): Shared<Arc<State>>,
    Extension(context): Extension<Arc<RequestContext>>,
    Path(id): Path<String>,
) -> Response {
    let job = background::delete(&state, &id, &context.key().unwrap_or_default()).await;
    if matches!(job, Ok(Some(_))) {
        // What was kept of it for responses that go on from it.
        let _ = state.service.responses().delete(&id, context.client());
    }
    one(job, || state.service.responses().delete(&id, context.client()))
}

/// The answer of a job, else of what is kept in memory.
fn one(job: Result<Option<String>, Fault>, kept: impl FnOnce() -> Result<Arc<str>, Fault>) -> Response {
    let object = job.and_then(|job| job.map_or_else(|| kept().map(|object| object.to_string()), Ok));
    object.map_or_else(|fault| httpd::respond(&fault), json_response)
}

fn json_response(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}
