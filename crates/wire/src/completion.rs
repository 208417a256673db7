//! `POST /v1/completions`.

use serde::Serialize;
use serde_json::Value;

use crate::chat::Stream;
use crate::error::Fault;
use crate::fields::{self, Fields};
use crate::numbers::{self, Exact};
use crate::request_fields::Route;
use crate::{
    Guided, Handling, Ids, Sampling, StopReason, Usage, guided, json, limits, logprobs, request_fields,
    sampling,
};

/// Tokens of an answer when the request does not say (OpenAI's default).
pub const DEFAULT_MAX_TOKENS: usize = 16;

/// A request, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletionRequest {
    /// The model asked for; none is the one there is.
    pub model: Option<String>,
    /// At least one, at most [`limits::PROMPTS`].
    pub prompts: Vec<Prompt>,
    /// Whether a text prompt gets the tokens that the model wants at the start.
    pub add_special_tokens: bool,
    /// Most tokens of an answer; 0, with `echo` only, is no answer. None is as many as fit.
    pub max_tokens: Option<usize>,
    /// Answers wanted for each prompt, 1 to [`limits::N`].
    pub n: usize,
    /// Answers computed for each prompt, of which the `n` likeliest are sent: `n` to [`limits::N`]. Prompts × best_of is
    /// at most [`limits::CHOICES`].
    pub best_of: usize,
    /// Whether the text starts with the prompt.
    pub echo: bool,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// How it is handled beside others.
    pub handling: Handling,
    /// What it says of token ids.
    pub ids: Ids,
    /// Log-probabilities wanted, with so many alternatives.
    pub logprobs: Option<usize>,
    /// Log-probabilities of the prompt wanted, with so many alternatives; not streamed.
    pub prompt_logprobs: Option<usize>,
    /// What the answer must be like.
    pub guided: Option<Guided>,
    /// Whether to send the answer as it comes.
    pub stream: Stream,
    /// What of the request is left out or approximated, each a sentence for the client.
    pub warnings: Vec<String>,
}

/// What to continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// Text. Special tokens that it spells are taken as such.
    Text(String),
    /// Token ids, taken as they are.
    Tokens(Vec<u32>),
}

impl CompletionRequest {
    /// Reads a body. Never panics, whatever the bytes.
    pub fn parse(body: &[u8]) -> Result<CompletionRequest, Fault> {
        CompletionRequest::read_exact(&json::read(body)?, &numbers::exact(body))
    }

    /// Reads a request that is JSON already.
    pub fn read(value: &Value) -> Result<CompletionRequest, Fault> {
        CompletionRequest::read_exact(value, &[])
    }

    /// Reads a request with the numbers of its text that a double does not hold.
    pub(crate) fn read_exact(value: &Value, exact: &[Exact]) -> Result<CompletionRequest, Fault> {
        let body = Fields::body(value)?;
        let warnings = request_fields::check(&body, Route::Completions)?;
        let n = sampling::answers(&body)?;
        let stream = Stream::read(&body)?;
        let request = CompletionRequest {
            model: body.text("model", usize::MAX)?.map(str::to_owned),
            prompts: prompts(&body)?,
            add_special_tokens: body.boolean("add_special_tokens")?.unwrap_or(true),
            max_tokens: most(&body)?,
            n,
            best_of: best_of(&body, n)?,
            echo: body.boolean("echo")?.unwrap_or(false),
            sampling: Sampling::read(&body)?,
            handling: Handling::read(&body)?,
            ids: Ids::read(&body)?,
            logprobs: logprobs_wanted(&body)?,
            prompt_logprobs: logprobs::of_prompt_wanted(&body, stream.on)?,
            guided: guided::read(&body, exact)?,
            stream,
            warnings,
        };
        request.check()?;
        Ok(request)
    }

    pub(crate) fn check(&self) -> Result<(), Fault> {
        sampling::check_min_tokens(&self.sampling, self.max_tokens)?;
        let choices = self.prompts.len() * self.best_of;
        if choices > limits::CHOICES {
            let name = if self.best_of > self.n { "best_of" } else { "n" };
            let message = format!(
                "{name} is {} and there are {} prompts, {choices} answers in all; at most {} are allowed",
                self.best_of,
                self.prompts.len(),
                limits::CHOICES
            );
            return Err(Fault::field(name, message));
        }
        if self.stream.on && self.best_of > self.n {
            let message = format!(
                "best_of is {} and n is {}: which answers are the best is known at the end; stream must be false",
                self.best_of, self.n
            );
            return Err(Fault::field("best_of", message));
        }
        if self.max_tokens == Some(0) && !self.echo {
            let message = "max_tokens is 0; it must be at least 1, or echo must be true";
            return Err(Fault::field("max_tokens", message));
        }
        Ok(())
    }
}

/// OpenAI's default where nothing is said; llama.cpp's -1 says "no bound".
fn most(body: &Fields<'_>) -> Result<Option<usize>, Fault> {
    let unbounded = body.get("n_predict").is_some_and(|most| *most == -1);
    let most = sampling::max_tokens(body, 0)?;
    Ok(if unbounded { most } else { most.or(Some(DEFAULT_MAX_TOKENS)) })
}

pub(crate) fn best_of(body: &Fields<'_>, n: usize) -> Result<usize, Fault> {
    let name = "best_of";
    match body.count(name, 1..=limits::N)? {
        Some(best_of) if best_of < n => {
            Err(Fault::field(body.param(name), format!("{name} is {best_of}; it must be at least n, {n}")))
        }
        best_of => Ok(best_of.unwrap_or(n)),
    }
}

/// An integer; vLLM and OpenAI count alternatives here. `true` and `false` are llama.cpp's form.
fn logprobs_wanted(body: &Fields<'_>) -> Result<Option<usize>, Fault> {
    match body.get("logprobs") {
        Some(Value::Bool(on)) => Ok(on.then_some(0)),
        _ => body.count("logprobs", 0..=limits::LOGPROBS),
    }
}

pub(crate) fn prompts(body: &Fields<'_>) -> Result<Vec<Prompt>, Fault> {
    let name = "prompt";
    match body.get(name) {
        None => Err(Fault::missing(name)),
        Some(Value::String(text)) => Ok(vec![Prompt::Text(text.clone())]),
        Some(Value::Array(list)) if list.is_empty() => {
            Err(Fault::field(name, "prompt is empty; it must have at least 1 entry"))
        }
        Some(Value::Array(list)) if list.iter().all(Value::is_number) => Ok(vec![tokens(name, list)?]),
        Some(Value::Array(list)) if list.len() > limits::PROMPTS => {
            Err(fields::too_many(name, list.len(), limits::PROMPTS))
        }
        Some(Value::Array(list)) => {
            list.iter().enumerate().map(|(i, entry)| prompt(format!("prompt[{i}]"), entry)).collect()
        }
        Some(other) => Err(fields::wrong(name, other, "a string, an array of strings or of token ids")),
    }
}

fn prompt(param: String, entry: &Value) -> Result<Prompt, Fault> {
    match entry {
        Value::String(text) => Ok(Prompt::Text(text.clone())),
        Value::Array(ids) => tokens(&param, ids),
        other => Err(fields::wrong(&param, other, "a string or an array of token ids")),
    }
}

fn tokens(param: &str, ids: &[Value]) -> Result<Prompt, Fault> {
    if ids.is_empty() {
        return Err(Fault::field(param, format!("{param} is empty; it must have at least 1 token id")));
    }
    Ok(Prompt::Tokens(sampling::token_ids(param, ids)?))
}

/// A whole answer, or one event of a stream.
#[derive(Debug, Clone, Serialize)]
pub struct Answer<'a> {
    /// `cmpl-…`
    pub id: &'a str,
    /// `text_completion`, in streams too.
    pub object: &'static str,
    /// Unix seconds.
    pub created: u64,
    /// The model's name.
    pub model: &'a str,
    /// Version of the server.
    pub system_fingerprint: &'static str,
    /// The answers: those of the first prompt, then those of the second, and so on.
    pub choices: Vec<Choice>,
    /// Token counts. In a stream: null until the last event, absent when it was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Option<Usage>>,
}

/// One answer, or what is new in it.
#[derive(Debug, Clone, Serialize)]
pub struct Choice {
    /// Prompt × n + answer, from 0.
    pub index: usize,
    /// The text.
    pub text: String,
    /// If asked for.
    pub logprobs: Option<logprobs::Completion>,
    /// `stop` or `length`; null while a stream goes on.
    pub finish_reason: Option<&'static str>,
    /// Which of the request's stops was met; absent while a stream goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<Option<StopReason>>,
    /// If asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
    /// If asked for; in a stream in a choice's first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
    /// If asked for; never in a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_logprobs: Option<logprobs::Prompt>,
}
