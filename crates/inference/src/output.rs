//! What comes back.

use std::sync::Arc;
use std::task::{Context, Poll};

use wire::logprobs::{Position, Scored};
use wire::{Fault, StopReason, Usage};

/// The answer to an operation.
pub enum Output {
    /// Of [`Generate`](crate::Operation::Generate): answers, token by token.
    Generation(Generation),
    /// Tokens of a text, for [`Tokenize`](crate::Operation::Tokenize).
    Tokens(Tokens),
    /// Text of tokens or of a conversation, for [`Tokenize`](crate::Operation::Tokenize).
    Text(String),
    /// A vector for each text, for [`Embed`](crate::Operation::Embed).
    Vectors(Vec<Vec<f32>>),
    /// A number for each document, text or pair, for the other operations.
    Scores(Vec<f32>),
}

/// Tokens of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// Their ids.
    pub ids: Vec<u32>,
    /// The bytes of each; may be part of a character.
    pub bytes: Vec<Vec<u8>>,
    /// Tokens that one request of the model may have, answer included.
    pub context: usize,
}

/// The answers to one or more prompts, as they come. Dropped, it cancels those that have not ended.
pub struct Generation {
    /// The name of the model that answers.
    pub model: String,
    /// Tokens that one request of the model may have, answer included.
    pub context: usize,
    /// The prompts, in the request's order.
    pub prompts: Vec<PromptFacts>,
    /// Answers to each prompt. Answer `k` to prompt `p` is choice `p * n + k`.
    pub n: usize,
    /// Where the events come from.
    pub events: Box<dyn Events>,
}

/// What is known of a prompt.
#[derive(Debug, Clone, Default)]
pub struct PromptFacts {
    /// How many tokens it has.
    pub tokens: usize,
    /// Their ids, if the request asked for them.
    pub ids: Option<Arc<[u32]>>,
    /// Its text, if the request asked for it.
    pub text: Option<String>,
}

impl Generation {
    /// How many answers there will be.
    pub fn choices(&self) -> usize {
        self.prompts.len() * self.n
    }

    /// The prompt that a choice answers.
    pub fn prompt_of(&self, choice: usize) -> Option<&PromptFacts> {
        self.prompts.get(choice / self.n.max(1))
    }

    /// The next event, with the choice that it belongs to.
    ///
    /// # Errors
    /// When the answers cannot go on.
    pub async fn next(&mut self) -> Result<(usize, Event), Fault> {
        std::future::poll_fn(|context| self.events.poll(context)).await
    }

    /// Whether every choice has ended.
    pub fn is_over(&self) -> bool {
        self.events.is_over()
    }

    /// Counts so far; a prompt counts once, however many answers it has.
    pub fn usage(&self) -> Usage {
        self.events.usage()
    }
}

/// Where the events of a generation come from: this machine or another one.
pub trait Events: Send {
    /// The next event, with the choice that it belongs to.
    ///
    /// # Errors
    /// When the answers cannot go on. There is no event after an error.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(usize, Event), Fault>>;

    /// Whether every choice has ended.
    fn is_over(&self) -> bool;

    /// Counts so far.
    fn usage(&self) -> Usage;
}

/// What a choice has to say.
#[derive(Debug)]
pub enum Event {
    /// The log-probabilities of its prompt, before its first token, if they were asked for.
    Prompt(PromptScores),
    /// A token.
    Token(Token),
    /// The end, with what was held back until now.
    Done {
        /// Parts of the answer that are certain now.
        parts: Vec<Part>,
        /// Why it ended.
        end: End,
    },
}

impl Event {
    /// The parts, and at the end why it is one.
    pub fn split(self) -> (Vec<Part>, Option<End>) {
        match self {
            Event::Prompt(_) => (Vec::new(), None),
            Event::Token(token) => (token.parts, None),
            Event::Done { parts, end } => (parts, Some(end)),
        }
    }
}

/// A token of an answer.
#[derive(Debug)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// The parts of the answer that it made certain: perhaps none.
    pub parts: Vec<Part>,
    /// Whether it ends the answer, and so has no text.
    pub ends: bool,
    /// How likely it was, if that was asked for.
    pub score: Option<Score>,
}

/// One piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// What is said.
    Content(String),
    /// What is thought.
    Reasoning(String),
    /// A tool is called: the `index`-th call of the answer, from 0. Its arguments follow.
    Call {
        /// From 0, without gaps.
        index: usize,
        /// The call's id, which its result names.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// More of the JSON text of a call's arguments.
    Arguments {
        /// Which call.
        index: usize,
        /// Text to append.
        text: String,
    },
}

/// Why an answer ended.
#[derive(Debug, Clone, Default)]
pub struct End {
    /// `stop`, `length` or `tool_calls`.
    pub reason: &'static str,
    /// Which of the request's stops was met.
    pub stop: Option<StopReason>,
}

impl End {
    /// The stop string that was met.
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
    /// The token's id.
    pub id: u32,
    /// The bytes of its text; may be part of a character.
    pub bytes: Vec<u8>,
    /// Whether it is a control token, which is no part of a text.
    pub special: bool,
}

/// A token and how likely it was, natural logarithm.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredToken {
    /// The token.
    pub token: TokenText,
    /// ln p.
    pub logprob: f32,
}

impl ScoredToken {
    /// In the wire's form; `named` calls it by its id.
    pub fn scored(&self, named: bool) -> Scored {
        Scored { bytes: self.token.bytes.clone(), id: named.then_some(self.token.id), logprob: self.logprob }
    }
}

/// A token of a text, how likely it was, and what was likelier.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// The token that the text has.
    pub chosen: ScoredToken,
    /// Its place among all tokens, from 1; as likely ones share it.
    pub rank: usize,
    /// The likeliest tokens, best first; as many as were asked for.
    pub top: Vec<ScoredToken>,
}

impl Score {
    /// In the wire's form, with at most `most` alternatives; `named` calls tokens by their ids.
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
    /// Its first token, which nothing comes before.
    pub first: TokenText,
    /// The others.
    pub rest: Vec<Score>,
}
