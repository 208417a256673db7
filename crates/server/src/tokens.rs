//! `/tokenize`, `/detokenize`, `/apply-template`, and counting for `/v1/messages/count_tokens`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State as Shared};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use wire::tokens::{self, Text, Tokenize, Tokenized};
use wire::{ChatRequest, Fault, anthropic};

use crate::state::State;
use crate::{Served, body, layers, messages, plan};

pub(crate) async fn tokenize(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let read = |served: &Served, body: &[u8]| {
        let (ids, pieces) = match Tokenize::parse(body)? {
            Tokenize::Text { model, text, wrapped, pieces } => {
                plan::check_model(served, model.as_deref())?;
                let ids = served.language.encode(&text, wrapped).map_err(|e| Fault::field("prompt", e))?;
                (ids, pieces)
            }
            Tokenize::Chat(chat, pieces) => (plan::prompt(served, &chat)?.1, pieces),
        };
        let piece = |id: &u32| String::from_utf8_lossy(&served.language.bytes(*id)).into_owned();
        Ok(Tokenized {
            count: ids.len(),
            max_model_len: served.engine.context(),
            token_strs: pieces.then(|| ids.iter().map(piece).collect()),
            tokens: ids,
        })
    };
    answer(compute(&state, request, read).await, layers::respond)
}

pub(crate) async fn detokenize(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let read = |served: &Served, body: &[u8]| {
        let (model, ids) = tokens::detokenize(body)?;
        plan::check_model(served, model.as_deref())?;
        let text = served.language.decode(&ids);
        Ok(Text { content: Some(text.clone()), prompt: text })
    };
    answer(compute(&state, request, read).await, layers::respond)
}

pub(crate) async fn apply_template(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let read = |served: &Served, body: &[u8]| {
        let chat = ChatRequest::parse(body)?;
        plan::check_model(served, chat.model.as_deref())?;
        Ok(Text { prompt: plan::prompt(served, &chat)?.0, content: None })
    };
    answer(compute(&state, request, read).await, layers::respond)
}

pub(crate) async fn count(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let read = |served: &Served, body: &[u8]| {
        let value = wire::json::read(body)?;
        let chat = ChatRequest::read(&anthropic::to_chat(&value, true)?)?;
        plan::check_model(served, chat.model.as_deref())?;
        Ok(json!({"input_tokens": plan::prompt(served, &chat)?.1.len()}))
    };
    answer(compute(&state, request, read).await, messages::respond)
}

fn answer<T: serde::Serialize>(outcome: Result<T, Fault>, respond: fn(&Fault) -> Response) -> Response {
    outcome.map_or_else(|fault| respond(&fault), |value| Json(value).into_response())
}

/// Computes on the threads for templates and tokenizers. It takes no place of an answer.
async fn compute<T: Send + 'static>(
    state: &State,
    request: Request,
    read: fn(&Served, &[u8]) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let served = state.served_or_reject()?;
    let body = body::read(state, request).await?;
    body.read_by(&served, read).await
}
