//! `POST /v1/completions`: requests, responses and stream events.

use serde::Serialize;
use serde_json::Value;

use crate::chat::Stream;
use crate::error::Fault;
use crate::fields::{self, Fields};
use crate::ids::Resumed;
use crate::numbers::{self, Exact};
use crate::request_fields::Route;
use crate::{
    Guided, Handling, Ids, Resume, Sampling, StopReason, Usage, guided, json, limits, logprobs,
    request_fields, sampling,
};

/// Default of `max_tokens`, as OpenAI's.
pub const DEFAULT_MAX_TOKENS: usize = 16;

/// A validated completion request.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletionRequest {
    /// Name of the requested model; none is the default model.
    pub model: Option<String>,
    /// Prompts, 1 to [`limits::PROMPTS`].
    pub prompts: Vec<Prompt>,
    /// Whether the model's special tokens (BOS) are added to text prompts.
    pub add_special_tokens: bool,
    /// Most tokens of an answer; 0, with `echo` only, is no answer. None is limited by the context only.
    pub max_tokens: Option<usize>,
    /// Number of answers to each prompt, 1 to [`limits::N`].
    pub n: usize,
    /// Answers computed for each prompt, of which the `n` most likely are sent: `n` to [`limits::N`]. Prompts × best_of
    /// is at most [`limits::CHOICES`].
    pub best_of: usize,
    /// Whether the text starts with the prompt.
    pub echo: bool,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// Scheduling options.
    pub handling: Handling,
    /// Options about token ids.
    pub ids: Ids,
    /// An answer that another node began; then there is one prompt.
    pub resume: Option<Resume>,
    /// Number of alternatives of the answer's log-probabilities; none without log-probabilities.
    pub logprobs: Option<usize>,
    /// Number of alternatives of the prompt's log-probabilities; none without them. Not with `stream`.
    pub prompt_logprobs: Option<usize>,
    /// Constraint on the answer (structured output).
    pub guided: Option<Guided>,
    /// Streaming options.
    pub stream: Stream,
    /// Warnings about ignored or approximated fields, as sentences for the client.
    pub warnings: Vec<String>,
}

/// A prompt to continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// Text. Special tokens in it are parsed.
    Text(String),
    /// Token ids, used unchanged.
    Tokens(Vec<u32>),
    /// A text with a gap, which is filled in.
    Infill(Infill),
}

/// A text with a gap. No special tokens in it are parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Infill {
    /// The text before the gap.
    pub prefix: String,
    /// The text after the gap.
    pub suffix: String,
    /// Other texts that help: file name and text. They are left out, the first ones first, if there is no room.
    pub extra: Vec<(String, String)>,
}

impl CompletionRequest {
    /// Parses a body. Never panics.
    ///
    /// # Errors
    /// Invalid JSON, or a field with an invalid or unsupported value.
    pub fn parse(body: &[u8]) -> Result<CompletionRequest, Fault> {
        CompletionRequest::read_exact(&json::read(body)?, &numbers::exact(body))
    }

    /// Reads a request from parsed JSON.
    ///
    /// # Errors
    /// A field with an invalid or unsupported value.
    pub fn read(value: &Value) -> Result<CompletionRequest, Fault> {
        CompletionRequest::read_exact(value, &[])
    }

    /// Reads a request, given the numbers of its text that a double cannot represent exactly.
    pub(crate) fn read_exact(value: &Value, exact: &[Exact]) -> Result<CompletionRequest, Fault> {
        let body = Fields::body(value)?;
        let warnings = request_fields::check(&body, Route::Completions)?;
        let n = sampling::answers(&body)?;
        let stream = Stream::read(&body)?;
        let request = CompletionRequest {
            model: body.text("model", usize::MAX)?.map(str::to_owned),
            prompts: with_suffix(&body, prompts(&body)?)?,
            add_special_tokens: body.boolean("add_special_tokens")?.unwrap_or(true),
            max_tokens: max_tokens(&body)?,
            n,
            best_of: best_of(&body, n)?,
            echo: body.boolean("echo")?.unwrap_or(false),
            sampling: Sampling::read(&body)?,
            handling: Handling::read(&body)?,
            ids: Ids::read(&body)?,
            resume: Resume::read(&body)?,
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
        if let Some(resume) = &self.resume {
            let name = if self.best_of > self.n { "best_of" } else { "n" };
            resume.check(&Resumed {
                answers: (if self.prompts.len() > 1 { "prompt" } else { name }, choices),
                max_tokens: self.max_tokens,
                whole_logprobs: self.logprobs.is_some() && !self.stream.on,
                of_prompt: self.echo.then_some("echo").or(self.prompt_logprobs.map(|_| "prompt_logprobs")),
            })?;
        }
        if self.max_tokens == Some(0) && !self.echo {
            let message = "max_tokens is 0; it must be at least 1, or echo must be true";
            return Err(Fault::field("max_tokens", message));
        }
        Ok(())
    }
}

/// `max_tokens`, with OpenAI's default; llama.cpp's `n_predict` of -1 is no limit.
fn max_tokens(body: &Fields<'_>) -> Result<Option<usize>, Fault> {
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

/// `logprobs`: the number of alternatives (OpenAI, vLLM), or a boolean (llama.cpp).
fn logprobs_wanted(body: &Fields<'_>) -> Result<Option<usize>, Fault> {
    match body.get("logprobs") {
        Some(Value::Bool(on)) => Ok(on.then_some(0)),
        _ => body.count("logprobs", 0..=limits::LOGPROBS),
    }
}

/// The prompts as texts before a gap, if there is a `suffix`.
fn with_suffix(body: &Fields<'_>, prompts: Vec<Prompt>) -> Result<Vec<Prompt>, Fault> {
    let suffix = body.text("suffix", usize::MAX)?.filter(|suffix| !suffix.is_empty());
    let Some(suffix) = suffix else { return Ok(prompts) };
    let infill = |prompt| match prompt {
        Prompt::Text(prefix) => {
            Ok(Prompt::Infill(Infill { prefix, suffix: suffix.to_owned(), extra: Vec::new() }))
        }
        _ => Err(Fault::field("suffix", "suffix goes together with a prompt of text; prompt has token ids")),
    };
    prompts.into_iter().map(infill).collect()
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

/// A whole response, or an event of a stream.
#[derive(Debug, Clone, Serialize)]
pub struct Answer<'a> {
    /// Id: `cmpl-…`.
    pub id: &'a str,
    /// Always `text_completion`, also in streams.
    pub object: &'static str,
    /// Creation time, in Unix seconds.
    pub created: u64,
    /// Name of the answering model.
    pub model: &'a str,
    /// Version of the server.
    pub system_fingerprint: &'static str,
    /// The answers: those of the first prompt, then those of the second, and so on.
    pub choices: Vec<Choice>,
    /// Token counts. In a stream null before the last event, absent unless requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Option<Usage>>,
}

/// One answer, or the new part of one.
#[derive(Debug, Clone, Serialize)]
pub struct Choice {
    /// Index of the choice: prompt × n + answer, from 0.
    pub index: usize,
    /// The text, or in a stream the new text.
    pub text: String,
    /// Log-probabilities, if requested.
    pub logprobs: Option<logprobs::Completion>,
    /// Finish reason, `stop` or `length`; in a stream null before the choice's last event.
    pub finish_reason: Option<&'static str>,
    /// The stop string or token that matched; in a stream absent before the choice's last event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<Option<StopReason>>,
    /// Token ids of the answer, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
    /// Token ids of the prompt, if requested; in a stream in the choice's first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
    /// Log-probabilities of the prompt, if requested; never in a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_logprobs: Option<logprobs::Prompt>,
}
