//! `/tokenize`, `/detokenize`, `/apply-template`, and counting for `/v1/messages/count_tokens`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State as Shared};
use axum::response::{IntoResponse, Response};
use inference::{Chunk, Operation, Output, Tokenize as Asked, Tokens};
use serde_json::json;
use service::Takes;
use wire::chunk::{ChunkAnswer, ChunkEntry, ChunkRequest};
use wire::tokens::{self, Text, Tokenize, Tokenized};
use wire::{ChatRequest, Fault, anthropic};

use crate::requests::{Parsed, Read, parsed};
use crate::state::State;
use crate::{encoders, faults};

pub(crate) async fn tokenize(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let read = |body: &[u8]| {
        Ok(match Tokenize::parse(body)? {
            Tokenize::Text { model, text, wrapped, pieces } => {
                (Asked::Encode { model, text, wrapped }, pieces)
            }
            Tokenize::Chat(chat, pieces) => (Asked::Chat(chat), pieces),
        })
    };
    let told = compute(&state, request, read).await.and_then(|(output, pieces)| {
        let Tokens { ids, bytes, context } = tokens_of(output)?;
        let piece = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        Ok(Tokenized {
            count: ids.len(),
            max_model_len: context,
            token_strs: pieces.then(|| bytes.iter().map(piece).collect()),
            tokens: ids,
        })
    });
    answer(told, httpd::respond)
}

pub(crate) async fn detokenize(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let read = |body: &[u8]| {
        let (model, ids) = tokens::detokenize(body)?;
        Ok((Asked::Decode { model, ids }, ()))
    };
    let told = compute(&state, request, read).await.and_then(|(output, ())| {
        let text = text_of(output)?;
        Ok(Text { content: Some(text.clone()), prompt: text })
    });
    answer(told, httpd::respond)
}

pub(crate) async fn apply_template(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let read = |body: &[u8]| Ok((Asked::Render(Box::new(ChatRequest::parse(body)?)), ()));
    let told = compute(&state, request, read).await;
    answer(told.and_then(|(output, ())| Ok(Text { prompt: text_of(output)?, content: None })), httpd::respond)
}

pub(crate) async fn count(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let read = |body: &[u8]| {
        let value = wire::json::read(body)?;
        Ok((Asked::Chat(Box::new(anthropic::read(&value, true)?)), ()))
    };
    let told = compute(&state, request, read).await;
    let count = |(output, ())| Ok(json!({"input_tokens": tokens_of(output)?.ids.len()}));
    answer(told.and_then(count), faults::anthropic)
}

/// `POST /v1/chunk`.
pub(crate) async fn chunk(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let make = |body: &[u8]| {
        let ChunkRequest { mut options, text, by, size, overlap } = ChunkRequest::parse(body)?;
        let model = options.model.take();
        Ok((Operation::Tokenize(Asked::Chunk { model, text, by, size, overlap }), options, ()))
    };
    let outcome =
        encoders::run(&state, request, &[("text", "input")], make).await.and_then(|done| match done.output {
            Output::Chunks(chunks) => Ok(chunks),
            _ => Err(Fault::internal("chunks were asked for, and something else came")),
        });
    let chunks = match outcome {
        Ok(chunks) => chunks,
        Err(fault) => return httpd::respond(&fault),
    };
    let entries = chunks.chunks.iter().enumerate();
    let data = entries.map(|(index, chunk)| entry(index, chunk, &chunks.text)).collect();
    Json(ChunkAnswer { object: "list", model: &chunks.model, data }).into_response()
}

fn entry<'a>(index: usize, chunk: &'a Chunk, text: &'a str) -> ChunkEntry<'a> {
    ChunkEntry {
        index,
        object: "chunk",
        text: text.get(chunk.bytes.clone()).unwrap_or_default(),
        bytes: chunk.bytes.clone().into(),
        chars: chunk.chars.clone().into(),
        tokens: chunk.tokens,
        headings: &chunk.headings,
    }
}

fn tokens_of(output: Output) -> Result<Tokens, Fault> {
    match output {
        Output::Tokens(tokens) => Ok(tokens),
        _ => Err(Fault::internal("tokens were asked for, and something else came")),
    }
}

fn text_of(output: Output) -> Result<String, Fault> {
    match output {
        Output::Text(text) => Ok(text),
        _ => Err(Fault::internal("a text was asked for, and something else came")),
    }
}

fn answer<T: serde::Serialize>(outcome: Result<T, Fault>, respond: fn(&Fault) -> Response) -> Response {
    outcome.map_or_else(|fault| respond(&fault), |value| Json(value).into_response())
}

/// Reads a body and asks for what it says. It takes no place of an answer; it waits for a slot to be read in, holds its key's
/// place and is charged its tokens as every other request.
async fn compute<A: Send + 'static>(
    state: &State,
    request: Request,
    read: Read<Asked, A>,
) -> Result<(Output, A), Fault> {
    let read =
        move |body: &[u8]| read(body).map(|(operation, asked)| (Operation::Tokenize(operation), asked));
    let Parsed { request, admitted, asked } = parsed(state, request, Takes::Texts, read).await?;
    Ok((state.service.answer(request, admitted).await?, asked))
}
