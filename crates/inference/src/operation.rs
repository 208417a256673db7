//! What can be asked of a model.

use std::sync::Arc;
use std::time::Duration;

use wire::{ChatRequest, CompletionRequest};

use crate::RequestContext;

/// An operation, and on whose behalf it is done.
pub struct Request {
    /// What is asked.
    pub operation: Operation,
    /// Who asks, and what is told of it.
    pub context: Arc<RequestContext>,
    /// Longest time from here to the last token, where the operation does not say; none is no limit.
    pub time_limit: Option<Duration>,
}

/// What can be asked of a model.
#[derive(Debug)]
pub enum Operation {
    /// Text that continues a conversation or a text.
    Generate(Generate),
    /// Tokens of texts, and texts of tokens.
    Tokenize(Tokenize),
    /// A vector for each text.
    Embed(Embed),
    /// Documents in the order in which they answer a query.
    Rerank(Rerank),
    /// A class for each text.
    Classify(Classify),
    /// How well the two texts of each pair go together.
    Score(Score),
}

impl Operation {
    /// The name of the model that is asked; none is the default one.
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

    /// What it does, in a word.
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

/// What is continued.
#[derive(Debug)]
pub enum Prompt {
    /// A conversation, through the model's chat template.
    Chat(Box<ChatRequest>),
    /// Texts or tokens, each by itself.
    Text(Box<CompletionRequest>),
}

/// Text that continues a prompt.
#[derive(Debug)]
pub struct Generate {
    /// What is continued, and how.
    pub prompt: Prompt,
    /// The name of the request's field that has the prompt, for errors.
    pub field: &'static str,
    /// Whether the answer needs the prompts as text.
    pub wants_text: bool,
}

impl Generate {
    /// A conversation to go on with.
    pub fn chat(request: ChatRequest) -> Generate {
        Generate { prompt: Prompt::Chat(Box::new(request)), field: "messages", wants_text: false }
    }

    /// Texts to continue; those that are echoed come back as text.
    pub fn text(request: CompletionRequest) -> Generate {
        let wants_text = request.echo;
        Generate { prompt: Prompt::Text(Box::new(request)), field: "prompt", wants_text }
    }
}

/// Tokens of texts, and texts of tokens.
#[derive(Debug)]
pub enum Tokenize {
    /// The tokens of a text.
    Encode {
        /// The model asked for.
        model: Option<String>,
        /// The text.
        text: String,
        /// With the tokens that the model wants around a text.
        wrapped: bool,
    },
    /// The tokens of a conversation.
    Chat(Box<ChatRequest>),
    /// A conversation as the text that the model continues.
    Render(Box<ChatRequest>),
    /// The text of tokens.
    Decode {
        /// The model asked for.
        model: Option<String>,
        /// Token ids.
        ids: Vec<u32>,
    },
}

/// A vector for each text.
#[derive(Debug)]
pub struct Embed {
    /// The model asked for.
    pub model: Option<String>,
    /// The texts.
    pub texts: Vec<String>,
}

/// Documents in the order in which they answer a query.
#[derive(Debug)]
pub struct Rerank {
    /// The model asked for.
    pub model: Option<String>,
    /// The query.
    pub query: String,
    /// The documents.
    pub documents: Vec<String>,
}

/// A class for each text.
#[derive(Debug)]
pub struct Classify {
    /// The model asked for.
    pub model: Option<String>,
    /// The texts.
    pub texts: Vec<String>,
}

/// How well the two texts of each pair go together.
#[derive(Debug)]
pub struct Score {
    /// The model asked for.
    pub model: Option<String>,
    /// The pairs.
    pub pairs: Vec<(String, String)>,
}
