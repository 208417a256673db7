//! Places that have fields, and what becomes of a field.

use serde_json::Value;

/// An object of a request that has fields of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Route {
    /// `POST /v1/chat/completions`, and `/apply-template`.
    Chat,
    /// `POST /v1/completions`, and `/generate` with `prompt`.
    Completions,
    /// `POST /v1/responses`.
    Responses,
    /// `POST /v1/messages`.
    Messages,
    /// `POST /v1/messages/count_tokens`.
    CountTokens,
    /// `POST /tokenize`.
    Tokenize,
    /// `POST /generate`, `/generate_stream` and `/` with `inputs`.
    Generate,
    /// The object `parameters` in those.
    Parameters,
    /// `POST /completion` and `/completions`, llama.cpp's.
    LlamaCompletion,
    /// `POST /api/chat`, Ollama's.
    OllamaChat,
    /// `POST /api/generate`, Ollama's.
    OllamaGenerate,
    /// The object `options` in those.
    OllamaOptions,
    /// `POST /v1/embeddings`, and `/embeddings`.
    Embeddings,
    /// `POST /v2/embed` and `/v1/embed`, Cohere's.
    CohereEmbed,
    /// `POST /v2/rerank`, `/v1/rerank`, and `/rerank` with `documents`.
    Rerank,
    /// `POST /score` and `/v1/score`, vLLM's.
    Score,
    /// `POST /classify`, vLLM's.
    Classify,
    /// `POST /pooling`, vLLM's.
    Pooling,
    /// `POST /embed`, `/embed_all` and `/embed_sparse`, text-embeddings-inference's; Hugging Face's feature extraction.
    TeiEmbed,
    /// `POST /predict`, text-embeddings-inference's.
    TeiPredict,
    /// `POST /rerank` with `texts`, text-embeddings-inference's.
    TeiRerank,
    /// `POST /similarity`, text-embeddings-inference's; Hugging Face's sentence similarity.
    TeiSimilarity,
    /// The object `parameters` in that.
    TeiSimilarityParameters,
    /// `POST /pipeline/text-classification` and `/pipeline/token-classification`, Hugging Face's.
    HfTask,
    /// The object `parameters` in the first.
    HfTextParameters,
    /// The object `parameters` in the second.
    HfTokenParameters,
    /// `POST /api/embed`, Ollama's.
    OllamaEmbed,
    /// `POST /api/embeddings`, Ollama's older one.
    OllamaEmbeddings,
    /// `POST /v1/entities`.
    Entities,
    /// `POST /v1/chunk`.
    Chunk,
}

impl Route {
    /// All of them.
    pub const ALL: [Route; 30] = [
        Route::Chat,
        Route::Completions,
        Route::Responses,
        Route::Messages,
        Route::CountTokens,
        Route::Tokenize,
        Route::Generate,
        Route::Parameters,
        Route::LlamaCompletion,
        Route::OllamaChat,
        Route::OllamaGenerate,
        Route::OllamaOptions,
        Route::Embeddings,
        Route::CohereEmbed,
        Route::Rerank,
        Route::Score,
        Route::Classify,
        Route::Pooling,
        Route::TeiEmbed,
        Route::TeiPredict,
        Route::TeiRerank,
        Route::TeiSimilarity,
        Route::TeiSimilarityParameters,
        Route::HfTask,
        Route::HfTextParameters,
        Route::HfTokenParameters,
        Route::OllamaEmbed,
        Route::OllamaEmbeddings,
        Route::Entities,
        Route::Chunk,
    ];

    /// The name in lists of fields.
    pub fn name(self) -> &'static str {
        match self {
            Route::Chat => "chat",
            Route::Completions => "completions",
            Route::Responses => "responses",
            Route::Messages => "messages",
            Route::CountTokens => "count_tokens",
            Route::Tokenize => "tokenize",
            Route::Generate => "generate",
            Route::Parameters => "parameters",
            Route::LlamaCompletion => "llama_completion",
            Route::OllamaChat => "ollama_chat",
            Route::OllamaGenerate => "ollama_generate",
            Route::OllamaOptions => "ollama_options",
            Route::Embeddings => "embeddings",
            Route::CohereEmbed => "cohere_embed",
            Route::Rerank => "rerank",
            Route::Score => "score",
            Route::Classify => "classify",
            Route::Pooling => "pooling",
            Route::TeiEmbed => "tei_embed",
            Route::TeiPredict => "tei_predict",
            Route::TeiRerank => "tei_rerank",
            Route::TeiSimilarity => "tei_similarity",
            Route::TeiSimilarityParameters => "tei_similarity_parameters",
            Route::HfTask => "hf_task",
            Route::HfTextParameters => "hf_text_parameters",
            Route::HfTokenParameters => "hf_token_parameters",
            Route::OllamaEmbed => "ollama_embed",
            Route::OllamaEmbeddings => "ollama_embeddings",
            Route::Entities => "entities",
            Route::Chunk => "chunk",
        }
    }

    /// Where its requests go.
    pub fn path(self) -> &'static str {
        match self {
            Route::Chat => "/v1/chat/completions",
            Route::Completions => "/v1/completions",
            Route::Responses => "/v1/responses",
            Route::Messages => "/v1/messages",
            Route::CountTokens => "/v1/messages/count_tokens",
            Route::Tokenize => "/tokenize",
            Route::Generate => "/generate",
            Route::Parameters => "/generate, in parameters",
            Route::LlamaCompletion => "/completion",
            Route::OllamaChat => "/api/chat",
            Route::OllamaGenerate => "/api/generate",
            Route::OllamaOptions => "/api/chat, in options",
            Route::Embeddings => "/v1/embeddings",
            Route::CohereEmbed => "/v2/embed",
            Route::Rerank => "/v2/rerank",
            Route::Score => "/score",
            Route::Classify => "/classify",
            Route::Pooling => "/pooling",
            Route::TeiEmbed => "/embed",
            Route::TeiPredict => "/predict",
            Route::TeiRerank => "/rerank",
            Route::TeiSimilarity => "/similarity",
            Route::TeiSimilarityParameters => "/similarity, in parameters",
            Route::HfTask => "/pipeline/text-classification",
            Route::HfTextParameters => "/pipeline/text-classification, in parameters",
            Route::HfTokenParameters => "/pipeline/token-classification, in parameters",
            Route::OllamaEmbed => "/api/embed",
            Route::OllamaEmbeddings => "/api/embeddings",
            Route::Entities => "/v1/entities",
            Route::Chunk => "/v1/chunk",
        }
    }

    /// Whether an answer is generated.
    pub(super) fn generates(self) -> bool {
        matches!(
            self,
            Route::Chat
                | Route::Completions
                | Route::Responses
                | Route::Messages
                | Route::Generate
                | Route::Parameters
                | Route::LlamaCompletion
                | Route::OllamaChat
                | Route::OllamaGenerate
                | Route::OllamaOptions
        )
    }
}

/// What becomes of a field.
#[derive(Debug, Clone, Copy)]
pub enum Decision {
    /// Read and acted on; a bad value is a 400 that names the field.
    Honoured,
    /// A 400, but for values that ask for nothing.
    Refused(fn(&Value) -> bool),
    /// Left out, and told in a warning, but for values that ask for nothing.
    LeftOut(fn(&Value) -> bool),
    /// Ignored: it changes no answer.
    Ignored,
}

impl Decision {
    /// The word in the documentation.
    pub fn word(self) -> &'static str {
        match self {
            Decision::Honoured => "honoured",
            Decision::Refused(_) => "refused",
            Decision::LeftOut(_) => "left out",
            Decision::Ignored => "ignored",
        }
    }
}

/// Fields that share a decision.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// Their names, with spaces between.
    pub(super) names: &'static str,
    /// Where it is so decided.
    pub routes: &'static [Route],
    /// What becomes of them.
    pub decision: Decision,
    /// Why; empty for most that are honoured.
    pub reason: &'static str,
}

impl Group {
    /// The fields.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.split_whitespace()
    }
}
