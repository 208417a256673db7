//! Outputs of operations: generated events, tokens, texts, vectors and scores.

use std::sync::Arc;
use std::task::{Context, Poll};

use wire::logprobs::{Position, Scored};
use wire::oip::Tensor;
use wire::{Fault, StopReason, Usage};

use crate::listener::Listener;

/// The output of an operation.
pub enum Output {
    /// Answers, token by token, for [`Generate`](crate::Operation::Generate).
    Generation(Generation),
    /// Tokens of a text, for [`Tokenize`](crate::Operation::Tokenize).
    Tokens(Tokens),
    /// Text of tokens or of a conversation, for [`Tokenize`](crate::Operation::Tokenize).
    Text(String),
    /// Parts of a text, for [`Tokenize`](crate::Operation::Tokenize).
    Chunks(Chunks),
    /// Vectors of each input, for [`Embed`](crate::Operation::Embed).
    Embeddings(Encoded<Embedding>),
    /// A number for each document or pair, in their order, for [`Rerank`](crate::Operation::Rerank) and
    /// [`Score`](crate::Operation::Score).
    Scores(Encoded<f32>),
    /// Scores of the labels for each input, for [`Classify`](crate::Operation::Classify).
    Classes {
        /// The labels, in the order of the scores.
        labels: Arc<[String]>,
        /// A score for each label, `[labels]`, for each input.
        scores: Encoded<Vec<f32>>,
    },
    /// Entities of each text, for [`ClassifyTokens`](crate::Operation::ClassifyTokens).
    Entities(Encoded<Vec<Entity>>),
    /// Output tensors, for [`Infer`](crate::Operation::Infer).
    Tensors(Inferred),
}

/// The output tensors of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Inferred {
    /// Name of the answering model.
    pub model: String,
    /// The version of the model.
    pub version: Arc<str>,
    /// The tensors, in the order of the request.
    pub outputs: Vec<Tensor>,
    /// Names of classes by index, of outputs that have some, by the output's name.
    pub labels: Vec<(String, Arc<[String]>)>,
}

impl Inferred {
    /// The name of a class of an output.
    pub fn label(labels: &[(String, Arc<[String]>)], output: &str, index: usize) -> Option<String> {
        let (_, names) = labels.iter().find(|(name, _)| name == output)?;
        names.get(index).cloned()
    }
}

/// The results of an encoder, one for each input.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoded<T> {
    /// Name of the answering model.
    pub model: String,
    /// What the numbers depend on: a digest of the model's file, and the version of the numerics. Equal inputs give
    /// bit-identical numbers under an equal fingerprint.
    pub fingerprint: Arc<str>,
    /// The results, in the inputs' order.
    pub results: Vec<T>,
    /// The lengths of the inputs, in their order.
    pub lengths: Vec<InputLength>,
}

impl<T> Encoded<T> {
    /// Tokens of all inputs that were encoded.
    pub fn tokens(&self) -> usize {
        self.lengths.iter().map(|length| length.tokens).sum()
    }

    /// Tokens of all inputs that were cut.
    pub fn truncated(&self) -> usize {
        self.lengths.iter().map(|length| length.truncated).sum()
    }
}

/// The length of an input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InputLength {
    /// Tokens that were encoded, special tokens included.
    pub tokens: usize,
    /// Tokens that were cut.
    pub truncated: usize,
}

/// The vectors of an input.
#[derive(Debug, Clone, PartialEq)]
pub enum Embedding {
    /// One vector.
    Dense(Vec<f32>),
    /// A vector for each token, `[tokens, width]`.
    Tokens {
        /// Numbers of a vector.
        width: usize,
        /// The vectors, one after another.
        values: Vec<f32>,
    },
    /// Entries of the vocabulary with their weights, by ascending id; those of weight 0 are left out.
    Sparse(Vec<(u32, f32)>),
}

/// A labelled part of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Entity {
    /// The label, without its BIO or BIOES prefix where tokens are aggregated.
    pub label: String,
    /// Mean probability of the label over the entity's tokens.
    pub score: f32,
    /// Index of the first token in the text; special tokens count.
    pub token: usize,
    /// The part of the text, in bytes.
    pub bytes: std::ops::Range<usize>,
    /// The part of the text, in Unicode characters.
    pub chars: std::ops::Range<usize>,
}

/// The parts of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunks {
    /// Name of the model whose tokens were counted.
    pub model: String,
    /// The text.
    pub text: String,
    /// The parts, in the order of the text.
    pub chunks: Vec<Chunk>,
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The part, in bytes.
    pub bytes: std::ops::Range<usize>,
    /// The part, in Unicode characters.
    pub chars: std::ops::Range<usize>,
    /// Number of its tokens, without special tokens.
    pub tokens: usize,
    /// The headings above it, the outermost first.
    pub headings: Vec<String>,
}

/// The tokens of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// Token ids.
    pub ids: Vec<u32>,
    /// Bytes of each token; may be an incomplete UTF-8 character.
    pub bytes: Vec<Vec<u8>>,
    /// Context length of the model: most tokens of prompt and answer together.
    pub context: usize,
}

/// A stream of the answers to one or more prompts. Dropping it cancels the answers that have not ended.
pub struct Generation {
    /// Name of the answering model.
    pub model: String,
    /// Context length of the model: most tokens of prompt and answer together.
    pub context: usize,
    /// The prompts, in the request's order.
    pub prompts: Vec<PromptFacts>,
    /// Number of answers to each prompt. Answer `k` to prompt `p` is choice `p * n + k`.
    pub n: usize,
    /// The source of the events.
    pub events: Box<dyn Events>,
    /// Who hears of the events that [`Generation::next`] returns.
    pub listener: Option<Arc<dyn Listener>>,
}

/// Properties of a prompt.
#[derive(Debug, Clone, Default)]
pub struct PromptFacts {
    /// Number of tokens.
    pub tokens: usize,
    /// Token ids, if requested.
    pub ids: Option<Arc<[u32]>>,
    /// The prompt's text, if requested.
    pub text: Option<String>,
}

impl Generation {
    /// Number of answers to all prompts.
    pub fn choices(&self) -> usize {
        self.prompts.len() * self.n
    }

    /// The prompt of a choice.
    pub fn prompt_of(&self, choice: usize) -> Option<&PromptFacts> {
        self.prompts.get(choice / self.n.max(1))
    }

    /// The next event, with the index of its choice.
    ///
    /// # Errors
    /// When the generation fails.
    pub async fn next(&mut self) -> Result<(usize, Event), Fault> {
        let (choice, event) = std::future::poll_fn(|context| self.events.poll(context)).await?;
        if let Some(listener) = &self.listener {
            event.tell(choice, &**listener);
        }
        Ok((choice, event))
    }

    /// Whether every choice has ended.
    pub fn is_over(&self) -> bool {
        self.events.is_over()
    }

    /// Token counts so far. A prompt counts once, regardless of its number of answers.
    pub fn usage(&self) -> Usage {
        self.events.usage()
    }
}

/// The source of a generation's events: this machine or another one.
pub trait Events: Send {
    /// Polls for the next event, with the index of its choice.
    ///
    /// # Errors
    /// When the generation fails. There is no event after an error.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(usize, Event), Fault>>;

    /// Whether every choice has ended.
    fn is_over(&self) -> bool;

    /// Token counts so far.
    fn usage(&self) -> Usage;
}

/// An event of a choice.
#[derive(Debug)]
pub enum Event {
    /// Log-probabilities of the choice's prompt, before the first token, if requested.
    Prompt(PromptScores),
    /// Tokens that another node generated, before all other events, if the request resumes an answer
    /// ([`wire::Resume`]): what a stream has sent already.
    Resumed(Vec<Token>),
    /// A generated token.
    Token(Token),
    /// The end of the choice.
    Done {
        /// Parts of the answer that were held back until the end.
        parts: Vec<Part>,
        /// Why the answer ended.
        end: End,
    },
}

impl Event {
    /// Tells a listener what came.
    fn tell(&self, choice: usize, listener: &dyn Listener) {
        let (tokens, last): (&[Token], &[Part]) = match self {
            Event::Token(token) => (std::slice::from_ref(token), &[]),
            Event::Resumed(tokens) => (tokens, &[]),
            Event::Done { parts, .. } => (&[], parts),
            Event::Prompt(_) => (&[], &[]),
        };
        tokens.iter().for_each(|token| listener.token(choice, token.id));
        for part in tokens.iter().flat_map(|token| &token.parts).chain(last) {
            if let Part::Content(text) = part {
                listener.text(choice, text);
            }
        }
    }

    /// The event's parts, and the ending of an [`Event::Done`].
    pub fn split(self) -> (Vec<Part>, Option<End>) {
        match self {
            Event::Prompt(_) => (Vec::new(), None),
            Event::Resumed(tokens) => (tokens.into_iter().flat_map(|token| token.parts).collect(), None),
            Event::Token(token) => (token.parts, None),
            Event::Done { parts, end } => (parts, Some(end)),
        }
    }
}

/// A token of an answer.
#[derive(Debug)]
pub struct Token {
    /// Token id.
    pub id: u32,
    /// Parts of the answer completed by the token; may be empty.
    pub parts: Vec<Part>,
    /// Whether the token ends the answer, and so has no text.
    pub ends: bool,
    /// The token's log-probability and alternatives, if requested.
    pub score: Option<Score>,
}

/// One piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text of the answer.
    Content(String),
    /// Text of the reasoning.
    Reasoning(String),
    /// The start of a tool call. The arguments follow.
    Call {
        /// Index of the call in the answer, from 0, without gaps.
        index: usize,
        /// Id of the call, by which its result refers to it.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// A piece of the JSON text of a call's arguments.
    Arguments {
        /// Index of the call.
        index: usize,
        /// Text to append.
        text: String,
    },
}

/// Why an answer ended.
#[derive(Debug, Clone, Default)]
pub struct End {
    /// Finish reason: `stop`, `length` or `tool_calls`.
    pub reason: &'static str,
    /// The stop string or token that matched.
    pub stop: Option<StopReason>,
}

impl End {
    /// The stop string that matched.
    pub fn sequence(&self) -> Option<&str> {
        match &self.stop {
            Some(StopReason::Text(text)) => Some(text),
            Some(StopReason::Id(_)) | None => None,
        }
    }
}

/// A token as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenText {
    /// Token id.
    pub id: u32,
    /// Bytes of the token's text; may be an incomplete UTF-8 character.
    pub bytes: Vec<u8>,
    /// Whether it is a control token, which has no text.
    pub special: bool,
}

/// A token with its log-probability.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredToken {
    /// The token.
    pub token: TokenText,
    /// Natural logarithm of the token's probability.
    pub logprob: f32,
}

impl ScoredToken {
    /// The token as `wire` serializes it; `named` adds the id, for `return_tokens_as_token_ids`.
    pub fn scored(&self, named: bool) -> Scored {
        Scored { bytes: self.token.bytes.clone(), id: named.then_some(self.token.id), logprob: self.logprob }
    }
}

/// A token of a text with its log-probability, rank, and the most likely alternatives.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// The token in the text.
    pub chosen: ScoredToken,
    /// Rank of the token among all tokens, from 1; equally likely tokens share a rank.
    pub rank: usize,
    /// The requested number of most likely tokens, the most likely first.
    pub top: Vec<ScoredToken>,
}

impl Score {
    /// The position as `wire` serializes it, with at most `most` alternatives; `named` adds token ids.
    pub fn position(&self, most: usize, named: bool) -> Position {
        Position {
            chosen: self.chosen.scored(named),
            top: self.top.iter().take(most).map(|token| token.scored(named)).collect(),
        }
    }
}

/// The log-probabilities of a prompt.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PromptScores {
    /// The first token, which has no log-probability.
    pub first: TokenText,
    /// The tokens after the first.
    pub rest: Vec<Score>,
}
