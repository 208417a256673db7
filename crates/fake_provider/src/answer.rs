//! An answer before it is written in a dialect.

use crate::dialect::Question;
use crate::words::{Tokens, hash};
use crate::{Dialect, Ending, Reply, Script, Usage};

/// The most tokens of an answer, whatever script and request say.
const TOKENS: usize = 100_000;

/// An answer: its tokens, and what surrounds them.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) dialect: Dialect,
    pub(crate) model: String,
    /// Unique to the request; ids of the answer are made of it.
    pub(crate) id: String,
    /// Text, or the arguments of the call, in pieces of one token.
    pub(crate) tokens: Tokens,
    /// The name of the tool that is called.
    pub(crate) tool: Option<String>,
    pub(crate) ending: Ending,
    pub(crate) usage: Usage,
    /// Whether the usage is left out.
    pub(crate) without_usage: bool,
    /// Whether the client asked for the usage of an OpenAI stream.
    pub(crate) include_usage: bool,
    /// Margins of log-probabilities, if they are asked for.
    pub(crate) margins: Vec<f64>,
    pub(crate) vectors: Vec<Vec<f32>>,
    pub(crate) base64: bool,
    /// Seconds since 1970.
    pub(crate) created: u64,
}

impl Answer {
    /// The answer to a question. `number` is the request's, `created` seconds since 1970.
    pub(crate) fn to(
        script: &Script,
        dialect: Dialect,
        question: &Question,
        number: u64,
        created: u64,
    ) -> Self {
        let (mut tokens, mut tool, mut ending) = (Tokens::Pieces(Vec::new()), None, Ending::Stop);
        match &script.reply {
            _ if dialect == Dialect::Embeddings => {}
            Reply::Tool { name, arguments } if question.tools => {
                (tokens, tool, ending) = (Tokens::pieces(arguments), Some(name.clone()), Ending::ToolCall);
            }
            Reply::Text(text) => tokens = Tokens::pieces(text),
            Reply::Echo => tokens = Tokens::pieces(&question.last),
            Reply::Words | Reply::Tool { .. } => {
                let count = script.tokens.min(TOKENS).min(question.max_tokens.unwrap_or(TOKENS));
                tokens = Tokens::words(script.seed, &question.prompt, count);
                if count < script.tokens {
                    ending = Ending::Length;
                }
            }
        }
        if let Some(limit) = question.max_tokens.filter(|limit| tool.is_none() && *limit < tokens.len()) {
            tokens.truncate(limit);
            ending = Ending::Length;
        }
        let dimensions = question.dimensions.unwrap_or(script.dimensions);
        let vectors =
            question.inputs.iter().map(|text| crate::words::embedding(script.seed, text, dimensions));
        let usage = Usage {
            prompt: question.prompt_tokens,
            cached: script.cached_tokens.min(question.prompt_tokens),
            output: tokens.len() as u64,
        };
        Self {
            dialect,
            model: question.model.clone(),
            id: format!("{:016x}{number:08x}", hash(script.seed, &question.model)),
            tokens,
            tool,
            ending,
            usage,
            without_usage: false,
            include_usage: question.include_usage,
            margins: if question.logprobs { script.margins.clone() } else { Vec::new() },
            vectors: vectors.collect(),
            base64: question.base64,
            created,
        }
    }

    /// The whole text.
    pub(crate) fn text(&self) -> String {
        self.tokens.text()
    }

    /// The answer as if the model had ended after so many tokens.
    pub(crate) fn filtered_after(mut self, tokens: usize) -> Self {
        self.tokens.truncate(tokens);
        self.usage.output = self.tokens.len() as u64;
        self.ending = Ending::Filtered;
        self
    }
}
