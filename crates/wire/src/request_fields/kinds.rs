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
}

impl Route {
    /// All of them.
    pub const ALL: [Route; 12] = [
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
        }
    }

    /// Whether an answer is generated.
    pub(super) fn generates(self) -> bool {
        !matches!(self, Route::CountTokens | Route::Tokenize)
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
