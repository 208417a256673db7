//! `/tokenize`, `/detokenize`, `/apply-template`, and counting for `/v1/messages/count_tokens`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State as Shared};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use wire::tokens::{self, Text, Tokenize, Tokenized};
use wire::{ChatRequest, Fault, anthropic, limits};

use crate::preparation::Work;
use crate::state::State;
use crate::{body, layers, messages, plan};

pub(crate) async fn tokenize(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let read = |work: &Work, body: &[u8]| {
        let most = work.most_counted();
        let (ids, pieces) = match Tokenize::parse(body)? {
            Tokenize::Text { model, text, wrapped, pieces } => {
                plan::check_model(work, model.as_deref())?;
                (work.encode("prompt", &text, wrapped, most)?, pieces)
            }
            Tokenize::Chat(chat, pieces) => {
                (plan::tokens(work, &plan::rendered(work, &chat)?, most)?, pieces)
            }
        };
        let piece = |id: &u32| String::from_utf8_lossy(&work.language.bytes(*id)).into_owned();
        Ok(Tokenized {
            count: ids.len(),
            max_model_len: work.engine.context(),
            token_strs: pieces.then(|| ids.iter().map(piece).collect()),
            tokens: ids,
        })
    };
    answer(compute(&state, request, read).await, layers::respond)
}

pub(crate) async fn detokenize(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let read = |work: &Work, body: &[u8]| {
        let (model, ids) = tokens::detokenize(body)?;
        plan::check_model(work, model.as_deref())?;
        work.charge(ids.len());
        let bytes: usize = ids.iter().map(|id| work.language.bytes(*id).len()).sum();
        if bytes > limits::DETOKENIZED_BYTES {
            let most = limits::DETOKENIZED_BYTES;
            return Err(Fault::field(
                "tokens",
                format!("tokens make {bytes} bytes of text; the limit is {most}"),
            ));
        }
        let text = work.language.decode(&ids);
        Ok(Text { content: Some(text.clone()), prompt: text })
    };
    answer(compute(&state, request, read).await, layers::respond)
}

/// Bytes of rendered text that are charged as one token, as they are not tokenized.
const BYTES_A_TOKEN: usize = 4;

pub(crate) async fn apply_template(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let read = |work: &Work, body: &[u8]| {
        let chat = ChatRequest::parse(body)?;
        plan::check_model(work, chat.model.as_deref())?;
        let prompt = plan::rendered(work, &chat)?.text;
        work.charge(prompt.len().div_ceil(BYTES_A_TOKEN));
        Ok(Text { prompt, content: None })
    };
    answer(compute(&state, request, read).await, layers::respond)
}

pub(crate) async fn count(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let read = |work: &Work, body: &[u8]| {
        let value = wire::json::read(body)?;
        let chat = anthropic::read(&value, true)?;
        plan::check_model(work, chat.model.as_deref())?;
        let prompt = plan::rendered(work, &chat)?;
        Ok(json!({"input_tokens": plan::tokens(work, &prompt, work.most_counted())?.len()}))
    };
    answer(compute(&state, request, read).await, messages::respond)
}

fn answer<T: serde::Serialize>(outcome: Result<T, Fault>, respond: fn(&Fault) -> Response) -> Response {
    outcome.map_or_else(|fault| respond(&fault), |value| Json(value).into_response())
}

/// Computes on the threads for templates and tokenizers. It takes no place of an answer; it waits for a slot there, holds its
/// key's place and is charged its tokens as every other request.
async fn compute<T: Send + 'static>(
    state: &State,
    request: Request,
    read: fn(&Work, &[u8]) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let served = state.served_or_reject()?;
    let body = body::read(state, request).await?;
    body.read_by(state, &served, read).await
}
