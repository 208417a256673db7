//! `POST /v1/chat/completions`.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::Fault;
use crate::fields::Fields;
use crate::{Handling, Sampling, Usage, limits, logprobs, message, sampling, unbuilt};

/// A request, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// The model asked for; none is the one there is.
    pub model: Option<String>,
    /// Messages in the form that templates expect: `content` is a string.
    pub messages: Vec<Value>,
    /// Tools, for the template.
    pub tools: Option<Vec<Value>>,
    /// More variables of the template (`chat_template_kwargs`, `reasoning_effort`).
    pub template_arguments: Map<String, Value>,
    /// Whether the template ends with the start of an answer.
    pub add_generation_prompt: bool,
    /// Most tokens of the answer; none is as many as fit.
    pub max_tokens: Option<usize>,
    /// Answers wanted, 1 to [`limits::N`].
    pub n: usize,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// How it is handled beside others.
    pub handling: Handling,
    /// Log-probabilities wanted, with so many alternatives.
    pub logprobs: Option<usize>,
    /// Whether to send the answer as it comes.
    pub stream: Stream,
}

/// How an answer is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stream {
    /// As events rather than whole.
    pub on: bool,
    /// With a last event that has the usage.
    pub usage: bool,
}

impl Stream {
    pub(crate) fn read(body: &Fields<'_>) -> Result<Stream, Fault> {
        let on = body.boolean("stream")?.unwrap_or(false);
        let Some(options) = body.get("stream_options") else { return Ok(Stream { on, usage: false }) };
        let options = Fields::at(options, "stream_options".into())?;
        let usage = options.boolean("include_usage")?.unwrap_or(false);
        if !on {
            return Err(Fault::field(
                "stream_options",
                "stream_options is given; stream must be true with it",
            ));
        }
        Ok(Stream { on, usage })
    }
}

impl ChatRequest {
    /// Reads a body. Never panics, whatever the bytes.
    pub fn parse(body: &[u8]) -> Result<ChatRequest, Fault> {
        let value: Value = serde_json::from_slice(body).map_err(|e| Fault::not_json(&e))?;
        let body = Fields::body(&value)?;
        unbuilt::refuse_for_chat(&body)?;
        Ok(ChatRequest {
            model: body.text("model", usize::MAX)?.map(str::to_owned),
            messages: message::read_all(&body)?,
            tools: message::tools(&body)?,
            template_arguments: template_arguments(&body)?,
            add_generation_prompt: body.boolean("add_generation_prompt")?.unwrap_or(true),
            max_tokens: sampling::max_tokens(&body)?,
            n: body.count("n", 1..=limits::N)?.unwrap_or(1),
            sampling: Sampling::read(&body)?,
            handling: Handling::read(&body)?,
            logprobs: logprobs_wanted(&body)?,
            stream: Stream::read(&body)?,
        })
    }
}

fn logprobs_wanted(body: &Fields<'_>) -> Result<Option<usize>, Fault> {
    let on = body.boolean("logprobs")?.unwrap_or(false);
    match body.count("top_logprobs", 0..=limits::LOGPROBS)? {
        Some(n) if n > 0 && !on => {
            Err(Fault::field("top_logprobs", format!("top_logprobs is {n}; logprobs must be true with it")))
        }
        top => Ok(on.then_some(top.unwrap_or(0))),
    }
}

fn template_arguments(body: &Fields<'_>) -> Result<Map<String, Value>, Fault> {
    let name = "chat_template_kwargs";
    let mut arguments = body.object(name, limits::TEMPLATE_ARGUMENTS)?.cloned().unwrap_or_default();
    for own in ["messages", "tools", "add_generation_prompt"] {
        if arguments.contains_key(own) {
            let message = format!("{name} has {own:?}; give it as a field of the request");
            return Err(Fault::field(format!("{name}.{own}"), message));
        }
    }
    if let Some(effort) = body.text("reasoning_effort", limits::NAME_BYTES)? {
        arguments.insert("reasoning_effort".into(), effort.into());
    }
    Ok(arguments)
}

/// A whole answer.
#[derive(Debug, Clone, Serialize)]
pub struct Answer {
    /// `chatcmpl-…`
    pub id: String,
    /// `chat.completion`
    pub object: &'static str,
    /// Unix seconds.
    pub created: u64,
    /// The model's name.
    pub model: String,
    /// Version of the server.
    pub system_fingerprint: &'static str,
    /// The answers, by index.
    pub choices: Vec<Choice>,
    /// Token counts.
    pub usage: Usage,
}

/// One whole answer of several.
#[derive(Debug, Clone, Serialize)]
pub struct Choice {
    /// From 0.
    pub index: usize,
    /// What was said.
    pub message: Said,
    /// If asked for.
    pub logprobs: Option<logprobs::Chat>,
    /// `stop` or `length`.
    pub finish_reason: &'static str,
}

/// An assistant's message.
#[derive(Debug, Clone, Serialize)]
pub struct Said {
    /// `assistant`
    pub role: &'static str,
    /// The text.
    pub content: String,
    /// Always null.
    pub refusal: Option<String>,
}

impl Said {
    /// A message with this text.
    pub fn new(content: String) -> Said {
        Said { role: "assistant", content, refusal: None }
    }
}

/// One event of a stream.
#[derive(Debug, Clone, Serialize)]
pub struct Chunk<'a> {
    /// The same in all events of an answer.
    pub id: &'a str,
    /// `chat.completion.chunk`
    pub object: &'static str,
    /// Unix seconds.
    pub created: u64,
    /// The model's name.
    pub model: &'a str,
    /// Version of the server.
    pub system_fingerprint: &'static str,
    /// One choice, or none in the event that has the usage.
    pub choices: Vec<Delta>,
    /// Null until the last event, absent when it was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Option<Usage>>,
}

/// What is new in one choice.
#[derive(Debug, Clone, Serialize)]
pub struct Delta {
    /// From 0.
    pub index: usize,
    /// The new text.
    pub delta: Saying,
    /// If asked for.
    pub logprobs: Option<logprobs::Chat>,
    /// In a choice's last event.
    pub finish_reason: Option<&'static str>,
}

/// New text.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Saying {
    /// `assistant`, in the first event of a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// Text to append.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}
