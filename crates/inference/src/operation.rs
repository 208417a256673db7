//! The operations of a model.

use std::sync::Arc;
use std::time::Duration;

use wire::{ChatRequest, CompletionRequest};

use crate::RequestContext;

/// An operation with its context and time limit.
pub struct Request {
    /// The operation.
    pub operation: Operation,
    /// The context: the client, and what is recorded of the request.
    pub context: Arc<RequestContext>,
    /// Upper bound of the time to the last token, where the operation sets none; none is no limit.
    pub time_limit: Option<Duration>,
}

/// An operation of a model.
#[derive(Debug)]
pub enum Operation {
    /// Generation: text that continues a conversation or a text.
    Generate(Generate),
    /// Tokenization and detokenization.
    Tokenize(Tokenize),
    /// Embedding: a vector for each text.
    Embed(Embed),
    /// Reranking: the relevance of documents to a query.
    Rerank(Rerank),
    /// Classification: a class for each text.
    Classify(Classify),
    /// Scoring: the similarity of the two texts of each pair.
    Score(Score),
}

impl Operation {
    /// The name of the requested model; none is the default model.
    pub fn model(&self) -> Option<&str> {
        match self {
            Operation::Generate(Generate { prompt: Prompt::Chat(chat), .. })
            | Operation::Tokenize(Tokenize::Chat(chat) | Tokenize::Render(chat)) => chat.model.as_deref(),
            Operation::Generate(Generate { prompt: Prompt::Text(completion), .. }) => {
                completion.model.as_deref()
            }
            Operation::Tokenize(Tokenize::Encode { model, .. } | Tokenize::Decode { model, .. })
            | Operation::Embed(Embed { model, .. })
            | Operation::Rerank(Rerank { model, .. })
            | Operation::Classify(Classify { model, .. })
            | Operation::Score(Score { model, .. }) => model.as_deref(),
        }
    }

    /// The operation's name: `generate`, `tokenize`, `embed`, `rerank`, `classify` or `score`.
    pub fn name(&self) -> &'static str {
        match self {
            Operation::Generate(_) => "generate",
            Operation::Tokenize(_) => "tokenize",
            Operation::Embed(_) => "embed",
            Operation::Rerank(_) => "rerank",
            Operation::Classify(_) => "classify",
            Operation::Score(_) => "score",
        }
    }
}

/// The prompt of a generation.
#[derive(Debug)]
pub enum Prompt {
    /// A conversation, through the model's chat template.
    Chat(Box<ChatRequest>),
    /// One or more texts or lists of tokens, each continued separately.
    Text(Box<CompletionRequest>),
}

/// Generation of text that continues a prompt.
#[derive(Debug)]
pub struct Generate {
    /// The prompt, with the generation's parameters.
    pub prompt: Prompt,
    /// Name of the request field of the prompt, for errors.
    pub field: &'static str,
    /// Whether the output must include the prompts as text.
    pub wants_text: bool,
}

impl Generate {
    /// Generation of the next message of a conversation.
    pub fn chat(request: ChatRequest) -> Generate {
        Generate { prompt: Prompt::Chat(Box::new(request)), field: "messages", wants_text: false }
    }

    /// Generation of continuations. Includes the prompts as text if the request echoes them.
    pub fn text(request: CompletionRequest) -> Generate {
        let wants_text = request.echo;
        Generate { prompt: Prompt::Text(Box::new(request)), field: "prompt", wants_text }
    }
}

/// Tokenization and detokenization.
#[derive(Debug)]
pub enum Tokenize {
    /// The tokens of a text.
    Encode {
        /// Name of the requested model; none is the default model.
        model: Option<String>,
        /// The text.
        text: String,
        /// Whether to add the model's special tokens (BOS, EOS) around the text.
        wrapped: bool,
    },
    /// The tokens of a conversation, through the chat template.
    Chat(Box<ChatRequest>),
    /// The text of a conversation, through the chat template.
    Render(Box<ChatRequest>),
    /// The text of tokens.
    Decode {
        /// Name of the requested model; none is the default model.
        model: Option<String>,
        /// Token ids.
        ids: Vec<u32>,
    },
}

/// Embedding: a vector for each text.
#[derive(Debug)]
pub struct Embed {
    /// Name of the requested model; none is the default model.
    pub model: Option<String>,
    /// The texts.
    pub texts: Vec<String>,
}

/// Reranking: the relevance of documents to a query.
#[derive(Debug)]
pub struct Rerank {
    /// Name of the requested model; none is the default model.
    pub model: Option<String>,
    /// The query.
    pub query: String,
    /// The documents.
    pub documents: Vec<String>,
}

/// Classification: a class for each text.
#[derive(Debug)]
pub struct Classify {
    /// Name of the requested model; none is the default model.
    pub model: Option<String>,
    /// The texts.
    pub texts: Vec<String>,
}

/// Scoring: the similarity of the two texts of each pair.
#[derive(Debug)]
pub struct Score {
    /// Name of the requested model; none is the default model.
    pub model: Option<String>,
    /// The pairs.
    pub pairs: Vec<(String, String)>,
}
