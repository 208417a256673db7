//! The operations of a model.

use std::sync::Arc;
use std::time::Duration;

use wire::chunk::ChunkBy;
pub use wire::inputs::{Aggregation, InputPrompt, Length, TextInput, Truncation};
use wire::oip::{Parameters, Tensor};
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
    /// Embedding: vectors for each input.
    Embed(Embed),
    /// Reranking: the relevance of documents to a query.
    Rerank(Rerank),
    /// Classification: probabilities of labels for each input.
    Classify(Classify),
    /// Token classification: the entities in each text.
    ClassifyTokens(ClassifyTokens),
    /// Scoring: the similarity of the two texts of each pair.
    Score(Score),
    /// Inference: tensors from tensors.
    Infer(Infer),
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
            Operation::Tokenize(
                Tokenize::Encode { model, .. }
                | Tokenize::Decode { model, .. }
                | Tokenize::Chunk { model, .. },
            )
            | Operation::Embed(Embed { model, .. })
            | Operation::Rerank(Rerank { model, .. })
            | Operation::Classify(Classify { model, .. })
            | Operation::ClassifyTokens(ClassifyTokens { model, .. })
            | Operation::Score(Score { model, .. })
            | Operation::Infer(Infer { model, .. }) => model.as_deref(),
        }
    }

    /// The operation's name: `generate`, `tokenize`, `embed`, `rerank`, `classify`, `classify_tokens`, `score` or
    /// `infer`.
    pub fn name(&self) -> &'static str {
        match self {
            Operation::Generate(_) => "generate",
            Operation::Tokenize(_) => "tokenize",
            Operation::Embed(_) => "embed",
            Operation::Rerank(_) => "rerank",
            Operation::Classify(_) => "classify",
            Operation::ClassifyTokens(_) => "classify_tokens",
            Operation::Score(_) => "score",
            Operation::Infer(_) => "infer",
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
    /// The parts of a text that have at most so many tokens.
    Chunk {
        /// Name of the requested model; none is the default model.
        model: Option<String>,
        /// The text.
        text: String,
        /// Where it may be cut.
        by: ChunkBy,
        /// Most tokens of a chunk, without special tokens; at least 8. None is as many as the model takes, but not more
        /// than 256.
        size: Option<usize>,
        /// Most tokens that a chunk has in common with the one before it; at most half of `size`.
        overlap: usize,
    },
}

/// The vectors of an embedding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EmbedKind {
    /// One vector for each input, by the model's pooling.
    #[default]
    Dense,
    /// A vector for each token: the last hidden states, or the multi-vector head's output if the model has one.
    Tokens,
    /// Weights of vocabulary entries (SPLADE, bge-m3).
    Sparse,
}

/// Embedding: vectors for each input.
#[derive(Debug, Default)]
pub struct Embed {
    /// Name of the requested model; none is the default model.
    pub model: Option<String>,
    /// The inputs.
    pub inputs: Vec<TextInput>,
    /// Which vectors.
    pub kind: EmbedKind,
    /// The text before each input.
    pub prompt: InputPrompt,
    /// The limit of length.
    pub length: Length,
    /// Numbers to keep of each dense vector, which is then normalized again; none is all.
    pub dimensions: Option<usize>,
    /// Whether dense vectors are scaled to length 1; none is as the model's file says.
    pub normalize: Option<bool>,
}

/// Reranking: the relevance of documents to a query.
#[derive(Debug, Default)]
pub struct Rerank {
    /// Name of the requested model; none is the default model.
    pub model: Option<String>,
    /// The query.
    pub query: String,
    /// The documents.
    pub documents: Vec<String>,
    /// The limit of length of query and document together. Tokens are cut from the document.
    pub length: Length,
    /// Most tokens of a document; longer ones are cut.
    pub document_tokens: Option<usize>,
    /// Whether scores are logits, without the model's activation function.
    pub raw_scores: bool,
}

/// Classification: the probabilities of the model's labels for each input.
#[derive(Debug, Default)]
pub struct Classify {
    /// Name of the requested model; none is the default model.
    pub model: Option<String>,
    /// The inputs.
    pub inputs: Vec<TextInput>,
    /// The limit of length.
    pub length: Length,
    /// Whether scores are logits, without the model's activation function.
    pub raw_scores: bool,
    /// The labels to choose from, for a generating model, which has none of its own.
    pub labels: Vec<String>,
}

/// Token classification, such as named-entity recognition.
#[derive(Debug, Default)]
pub struct ClassifyTokens {
    /// Name of the requested model; none is the default model.
    pub model: Option<String>,
    /// The texts.
    pub texts: Vec<String>,
    /// The limit of length.
    pub length: Length,
    /// How labels become entities.
    pub aggregation: Aggregation,
    /// Labels that are left out; `O` is what models call the absence of one.
    pub ignore_labels: Vec<String>,
}

/// Scoring: the similarity or relevance of the two texts of each pair. A cross-encoder scores a pair as in
/// [`Rerank`]; with an embedding model the score is the cosine of the vectors, with a multi-vector one the sum over
/// the first text's tokens of the largest dot product (MaxSim, Khattab and Zaharia, 2020).
#[derive(Debug, Default)]
pub struct Score {
    /// Name of the requested model; none is the default model.
    pub model: Option<String>,
    /// The pairs.
    pub pairs: Vec<(String, String)>,
    /// The limit of length.
    pub length: Length,
    /// The text before each input, for an embedding model.
    pub prompt: InputPrompt,
    /// Whether scores are logits, without the model's activation function.
    pub raw_scores: bool,
}

/// Inference: the output tensors of a model for input tensors. Models of texts answer it too: encoders take texts or
/// token ids, generating models prompts.
#[derive(Debug, Default)]
pub struct Infer {
    /// Name of the requested model; none is the default model.
    pub model: Option<String>,
    /// The inputs, whose bytes are those of their shapes.
    pub inputs: Vec<Tensor>,
    /// Names of the outputs that are wanted, in the order of the answer; empty is all.
    pub outputs: Vec<String>,
    /// Options for the model, such as those of sampling.
    pub parameters: Parameters,
}

impl Infer {
    /// Items of the request, as statistics count them: rows of the first input, 1 without rows.
    pub fn items(&self) -> usize {
        self.inputs.first().and_then(|input| input.shape.first()).copied().unwrap_or(1).max(1)
    }
}
