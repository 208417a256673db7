//! All parsers of request bodies, by path, for fuzzing and property tests.

use crate::chunk::ChunkRequest;
use crate::cohere::CohereEmbedRequest;
use crate::embeddings::EmbeddingsRequest;
use crate::entities::EntitiesRequest;
use crate::huggingface::{TextClassificationRequest, TokenClassificationRequest};
use crate::llamacpp::LlamaRequest;
use crate::ollama::{OllamaEmbedRequest, OllamaRequest, ShowRequest};
use crate::rerank::RerankBody;
use crate::tei::{EmbedRequest, PredictRequest, SimilarityRequest};
use crate::tgi::Generate;
use crate::tokens::{self, Tokenize};
use crate::vllm_pooling::{ClassifyRequest, PoolingRequest, ScoreRequest};
use crate::{ChatRequest, CompletionRequest, Fault, ResponsesRequest, anthropic, json};

/// A parser that discards the request and returns only whether the body is valid.
pub type Reader = fn(&[u8]) -> Result<(), Fault>;

/// The paths and the parsers of their bodies. None of them panics on any input; invalid bodies give a client error with
/// a message of one line.
pub const ALL: [(&str, Reader); 30] = [
    ("/v1/chat/completions", |body| ChatRequest::parse(body).map(drop)),
    ("/v1/completions", |body| CompletionRequest::parse(body).map(drop)),
    ("/v1/responses", |body| ResponsesRequest::parse(body)?.chat_request(&[]).map(drop)),
    ("/v1/messages", |body| anthropic::read(&json::read(body)?, false).map(drop)),
    ("/v1/messages/count_tokens", |body| anthropic::read(&json::read(body)?, true).map(drop)),
    ("/tokenize", |body| Tokenize::parse(body).map(drop)),
    ("/detokenize", |body| tokens::detokenize(body).map(drop)),
    ("/generate", |body| Generate::parse(body).map(drop)),
    ("/completion", |body| LlamaRequest::parse(body).map(drop)),
    ("/infill", |body| LlamaRequest::parse_infill(body).map(drop)),
    ("/api/chat", |body| OllamaRequest::parse_chat(body).map(drop)),
    ("/api/generate", |body| OllamaRequest::parse_generate(body).map(drop)),
    ("/api/show", |body| ShowRequest::parse(body).map(drop)),
    ("/v1/embeddings", |body| EmbeddingsRequest::parse(body).map(drop)),
    ("/v1/embed", |body| CohereEmbedRequest::parse_v1(body).map(drop)),
    ("/v2/embed", |body| CohereEmbedRequest::parse_v2(body).map(drop)),
    ("/v2/rerank", |body| RerankBody::parse(body, false).map(drop)),
    ("/rerank", |body| RerankBody::parse(body, true).map(drop)),
    ("/score", |body| ScoreRequest::parse(body).map(drop)),
    ("/classify", |body| ClassifyRequest::parse(body).map(drop)),
    ("/pooling", |body| PoolingRequest::parse(body).map(drop)),
    ("/embed", |body| EmbedRequest::parse(body).map(drop)),
    ("/predict", |body| PredictRequest::parse(body).map(drop)),
    ("/similarity", |body| SimilarityRequest::parse(body).map(drop)),
    ("/pipeline/text-classification", |body| TextClassificationRequest::parse(body).map(drop)),
    ("/pipeline/token-classification", |body| TokenClassificationRequest::parse(body).map(drop)),
    ("/api/embed", |body| OllamaEmbedRequest::parse_embed(body).map(drop)),
    ("/api/embeddings", |body| OllamaEmbedRequest::parse_embeddings(body).map(drop)),
    ("/v1/entities", |body| EntitiesRequest::parse(body).map(drop)),
    ("/v1/chunk", |body| ChunkRequest::parse(body).map(drop)),
];
