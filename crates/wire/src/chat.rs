//! `POST /v1/chat/completions`.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::Fault;
use crate::fields::Fields;
use crate::message::ToolChoice;
use crate::numbers::{self, Exact};
use crate::request_fields::Route;
use crate::{
    Guided, Handling, Ids, Sampling, StopReason, Usage, guided, json, limits, logprobs, message,
    request_fields, sampling, thinking,
};

/// A request, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// The model asked for; none is the one there is.
    pub model: Option<String>,
    /// Messages in the form that templates expect: `content` is a string.
    pub messages: Vec<Value>,
    /// Tools, for the template.
    pub tools: Option<Vec<Value>>,
    /// Whether the model may call them.
    pub tool_choice: ToolChoice,
    /// Whether an answer may have more than one call.
    pub parallel_tool_calls: bool,
    /// Whether what the model thinks is part of the answer.
    pub include_reasoning: bool,
    /// More variables of the template (`chat_template_kwargs`, `reasoning_effort`).
    pub template_arguments: Map<String, Value>,
    /// Whether the template ends with the start of an answer.
    pub add_generation_prompt: bool,
    /// Whether the answer goes on where the last message ends, as a part of it.
    pub continue_final_message: bool,
    /// Most tokens of the answer; none is as many as fit.
    pub max_tokens: Option<usize>,
    /// Answers wanted, 1 to [`limits::N`].
    pub n: usize,
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
    /// Most tokens of a thought: then it is ended.
    pub thinking_budget: Option<usize>,
    /// Whether to send the answer as it comes.
    pub stream: Stream,
    /// What of the request is left out or approximated, each a sentence for the client.
    pub warnings: Vec<String>,
    /// Numbers of the body that a double does not hold.
    pub exact: Vec<Exact>,
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
        let value = json::read(body)?;
        ChatRequest::read_exact(&value, numbers::exact(body))
    }

    /// Reads a request that is JSON already.
    pub fn read(value: &Value) -> Result<ChatRequest, Fault> {
        ChatRequest::read_exact(value, Vec::new())
    }

    /// Reads a request with the numbers of its text that a double does not hold.
    fn read_exact(value: &Value, exact: Vec<Exact>) -> Result<ChatRequest, Fault> {
        let body = Fields::body(value)?;
        let warnings = request_fields::check(&body, Route::Chat)?;
        let tools = message::tools(&body)?;
        let stream = Stream::read(&body)?;
        let add_generation_prompt = body.boolean("add_generation_prompt")?;
        let continue_final_message = body.boolean("continue_final_message")?.unwrap_or(false);
        let request = ChatRequest {
            model: body.text("model", usize::MAX)?.map(str::to_owned),
            messages: message::read_all(&body)?,
            tool_choice: message::choice(&body, tools.as_deref())?,
            parallel_tool_calls: body.boolean("parallel_tool_calls")?.unwrap_or(true),
            include_reasoning: thinking::included(&body)?,
            tools,
            template_arguments: thinking::template_arguments(&body)?,
            add_generation_prompt: add_generation_prompt.unwrap_or(!continue_final_message),
            continue_final_message,
            max_tokens: sampling::max_tokens(&body, 1)?,
            n: sampling::answers(&body)?,
            sampling: Sampling::read(&body)?,
            handling: Handling::read(&body)?,
            ids: Ids::read(&body)?,
            logprobs: logprobs_wanted(&body)?,
            prompt_logprobs: logprobs::of_prompt_wanted(&body, stream.on)?,
            guided: guided::read(&body, &exact)?,
            thinking_budget: thinking::budget(&body)?,
            stream,
            warnings,
            exact,
        };
        request.check()?;
        request.check_best_of(&body)?;
        Ok(request)
    }
}

impl ChatRequest {
    fn check(&self) -> Result<(), Fault> {
        sampling::check_min_tokens(&self.sampling, self.max_tokens)?;
        self.check_continuation()
    }
}

impl ChatRequest {
    /// OpenAI's chat has no `best_of`: all answers are sent, whichever is the best.
    fn check_best_of(&self, body: &Fields<'_>) -> Result<(), Fault> {
        match body.count("best_of", 1..=limits::N)? {
            Some(best_of) if best_of != self.n && best_of != 1 => {
                let n = self.n;
                let message = format!(
                    "best_of is {best_of} and n is {n}: chat answers are not ranked; use n, or /v1/completions"
                );
                Err(Fault::unsupported("best_of", message))
            }
            _ => Ok(()),
        }
    }

    fn check_continuation(&self) -> Result<(), Fault> {
        let name = "continue_final_message";
        if !self.continue_final_message {
            return Ok(());
        }
        if self.add_generation_prompt {
            let message =
                format!("{name} and add_generation_prompt are true; an answer begins or goes on, not both");
            return Err(Fault::field(name, message));
        }
        let last = self.messages.last();
        let text = |field: &str| last.and_then(|m| m.get(field)).and_then(Value::as_str).unwrap_or_default();
        if text("role") != "assistant" || last.is_some_and(|m| m.get("tool_calls").is_some()) {
            let message =
                format!("{name} is true; the last message must be the assistant's, without tool calls");
            return Err(Fault::field(name, message));
        }
        if text("content").trim().is_empty() {
            return Err(Fault::field(name, format!("{name} is true; the last message must have content")));
        }
        Ok(())
    }
}

pub(crate) fn logprobs_wanted(body: &Fields<'_>) -> Result<Option<usize>, Fault> {
    let on = body.boolean("logprobs")?.unwrap_or(false);
    match body.count("top_logprobs", 0..=limits::LOGPROBS)? {
        Some(n) if n > 0 && !on => {
            Err(Fault::field("top_logprobs", format!("top_logprobs is {n}; logprobs must be true with it")))
        }
        top => Ok(on.then_some(top.unwrap_or(0))),
    }
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
    /// If asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
    /// If asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_logprobs: Option<logprobs::Prompt>,
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
    /// `stop`, `length` or `tool_calls`.
    pub finish_reason: &'static str,
    /// Which of the request's stops was met.
    pub stop_reason: Option<StopReason>,
    /// If asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
}

/// An assistant's message.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Said {
    /// `assistant`
    pub role: &'static str,
    /// The text; null where tools were called and nothing was said.
    pub content: Option<String>,
    /// Always null.
    pub refusal: Option<String>,
    /// What the model thought, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// The tools that it calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}

/// A call of a tool, or in a stream what is new in it.
#[derive(Debug, Clone, Serialize)]
pub struct ToolCall {
    /// In a stream, which call of the answer; else absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// By which a message with the result refers to it; in a call's first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `function`; in a call's first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<&'static str>,
    /// What is called.
    pub function: Function,
}

/// A function and its arguments.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Function {
    /// Its name; in a call's first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// JSON text, or a piece of it.
    pub arguments: String,
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
    /// If asked for, in a choice's first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<&'a [u32]>,
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
    /// In a choice's last event: which of the request's stops was met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<Option<StopReason>>,
    /// If asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
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
    /// Text to append to what is thought.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Calls that begin or go on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}
