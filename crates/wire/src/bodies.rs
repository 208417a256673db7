//! All parsers of request bodies, by path, for fuzzing and property tests.

use crate::llamacpp::LlamaRequest;
use crate::ollama::{OllamaRequest, ShowRequest};
use crate::tgi::Generate;
use crate::tokens::{self, Tokenize};
use crate::{ChatRequest, CompletionRequest, Fault, ResponsesRequest, anthropic, json};

/// A parser that discards the request and returns only whether the body is valid.
pub type Reader = fn(&[u8]) -> Result<(), Fault>;

/// The paths and the parsers of their bodies. None of them panics on any input; invalid bodies give a client error with
/// a message of one line.
pub const ALL: [(&str, Reader); 12] = [
    ("/v1/chat/completions", |body| ChatRequest::parse(body).map(drop)),
    ("/v1/completions", |body| CompletionRequest::parse(body).map(drop)),
    ("/v1/responses", |body| ResponsesRequest::parse(body)?.chat_request(&[]).map(drop)),
    ("/v1/messages", |body| anthropic::read(&json::read(body)?, false).map(drop)),
    ("/v1/messages/count_tokens", |body| anthropic::read(&json::read(body)?, true).map(drop)),
    ("/tokenize", |body| Tokenize::parse(body).map(drop)),
    ("/detokenize", |body| tokens::detokenize(body).map(drop)),
    ("/generate", |body| Generate::parse(body).map(drop)),
    ("/completion", |body| LlamaRequest::parse(body).map(drop)),
    ("/api/chat", |body| OllamaRequest::parse_chat(body).map(drop)),
    ("/api/generate", |body| OllamaRequest::parse_generate(body).map(drop)),
    ("/api/show", |body| ShowRequest::parse(body).map(drop)),
];
