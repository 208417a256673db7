//! Every reader of a request body, by name: what fuzzing and property tests go over.

use crate::llamacpp::LlamaRequest;
use crate::ollama::{OllamaRequest, ShowRequest};
use crate::tgi::Generate;
use crate::tokens::{self, Tokenize};
use crate::{ChatRequest, CompletionRequest, Fault, ResponsesRequest, anthropic, json};

/// A reader: it gives back nothing but whether the body is one.
pub type Reader = fn(&[u8]) -> Result<(), Fault>;

/// The readers and the paths whose bodies they read. None of them panics, whatever the bytes, and each refuses with a client
/// error of one readable line.
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
