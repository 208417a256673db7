//! The operations that clients ask for: a path, the dialect of its bodies, and who speaks it without translation.

use translation::{Dialect, GeminiPath};

/// Who speaks an API without translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Native {
    /// OpenAI's chat: nearly everybody.
    Chat,
    /// OpenAI's other operations: completions, embeddings.
    OpenAi,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's messages.
    Messages,
    /// Gemini.
    Gemini,
    /// Operations of encoders that several servers share: rerank, score, classify.
    Encoder,
    /// Nodes of ours alone.
    Node,
}

impl Native {
    /// Whether a stream is asked for in the body, in a dialect.
    pub(crate) fn streams_in_body(self, dialect: Dialect) -> bool {
        self.is_translated() && dialect != Dialect::Gemini
    }

    /// Whether requests can be said in another dialect.
    pub(crate) fn is_translated(self) -> bool {
        matches!(self, Native::Chat | Native::Responses | Native::Messages | Native::Gemini)
    }
}

/// An operation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Api {
    /// Path, which is its label in metrics too.
    pub(crate) path: &'static str,
    /// Dialect of its bodies; OpenAI's chat stands for all bodies with `model` at the top.
    pub(crate) dialect: Dialect,
    /// Who speaks it.
    pub(crate) native: Native,
    /// Whether text is generated: streams, resume, cascades.
    pub(crate) generates: bool,
}

const fn api(path: &'static str, dialect: Dialect, native: Native, generates: bool) -> Api {
    Api { path, dialect, native, generates }
}

/// The label of Gemini's paths.
pub(crate) const GEMINI: &str = "/v1beta/models/{model}";

/// Every operation.
pub(crate) const APIS: &[Api] = &[
    api("/v1/chat/completions", Dialect::OpenAiChat, Native::Chat, true),
    api("/v1/completions", Dialect::OpenAiChat, Native::OpenAi, true),
    api("/v1/responses", Dialect::OpenAiResponses, Native::Responses, true),
    api("/v1/messages", Dialect::Anthropic, Native::Messages, true),
    api(GEMINI, Dialect::Gemini, Native::Gemini, true),
    api("/v1/embeddings", Dialect::OpenAiChat, Native::OpenAi, false),
    api("/v1/rerank", Dialect::OpenAiChat, Native::Encoder, false),
    api("/v2/rerank", Dialect::OpenAiChat, Native::Encoder, false),
    api("/rerank", Dialect::OpenAiChat, Native::Encoder, false),
    api("/v1/score", Dialect::OpenAiChat, Native::Encoder, false),
    api("/score", Dialect::OpenAiChat, Native::Encoder, false),
    api("/classify", Dialect::OpenAiChat, Native::Encoder, false),
    api("/pooling", Dialect::OpenAiChat, Native::Encoder, false),
    api("/tokenize", Dialect::OpenAiChat, Native::Encoder, false),
    api("/v1/messages/count_tokens", Dialect::Anthropic, Native::Node, false),
];

/// The operation of a path.
pub(crate) fn at(path: &str) -> Option<&'static Api> {
    APIS.iter().find(|api| api.path == path).or_else(|| {
        let gemini = GeminiPath::parse(path)?;
        let generates = ["generateContent", "streamGenerateContent"].contains(&gemini.method.as_str());
        APIS.iter().find(|api| generates && api.path == GEMINI)
    })
}
