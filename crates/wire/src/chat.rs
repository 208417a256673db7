//! `POST /v1/chat/completions`: requests, responses and stream events.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::Fault;
use crate::fields::Fields;
use crate::ids::Resumed;
use crate::message::ToolChoice;
use crate::numbers::{self, Exact};
use crate::request_fields::Route;
use crate::{
    Guided, Handling, Ids, Resume, Sampling, StopReason, Usage, guided, json, limits, logprobs, message,
    request_fields, sampling, thinking,
};

/// A validated chat request.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// Name of the requested model; none is the default model.
    pub model: Option<String>,
    /// Messages in the form that chat templates expect: `content` is a string.
    pub messages: Vec<Value>,
    /// Tools, for the chat template.
    pub tools: Option<Vec<Value>>,
    /// Whether the model may, must or must not call tools.
    pub tool_choice: ToolChoice,
    /// Whether an answer may have more than one tool call.
    pub parallel_tool_calls: bool,
    /// Whether the response includes the reasoning.
    pub include_reasoning: bool,
    /// Further variables of the chat template (`chat_template_kwargs`, `reasoning_effort`).
    pub template_arguments: Map<String, Value>,
    /// Whether the prompt ends with the start of an assistant message.
    pub add_generation_prompt: bool,
    /// Whether the answer continues the last message.
    pub continue_final_message: bool,
    /// Most tokens of the answer; none is limited by the context only.
    pub max_tokens: Option<usize>,
    /// Number of answers, 1 to [`limits::N`].
    pub n: usize,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// Scheduling options.
    pub handling: Handling,
    /// Options about token ids.
    pub ids: Ids,
    /// An answer that another node began.
    pub resume: Option<Resume>,
    /// Number of alternatives of the answer's log-probabilities; none without log-probabilities.
    pub logprobs: Option<usize>,
    /// Number of alternatives of the prompt's log-probabilities; none without them. Not with `stream`.
    pub prompt_logprobs: Option<usize>,
    /// Constraint on the answer (structured output).
    pub guided: Option<Guided>,
    /// Most tokens of the reasoning, after which it is ended.
    pub thinking_budget: Option<usize>,
    /// Streaming options.
    pub stream: Stream,
    /// Warnings about ignored or approximated fields, as sentences for the client.
    pub warnings: Vec<String>,
    /// Numbers of the body that a double cannot represent exactly.
    pub exact: Vec<Exact>,
}

/// Streaming options of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stream {
    /// Whether the answer is sent as server-sent events.
    pub on: bool,
    /// Whether the last event has the usage (`stream_options.include_usage`).
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
    /// Parses a body. Never panics.
    ///
    /// # Errors
    /// Invalid JSON, or a field with an invalid or unsupported value.
    pub fn parse(body: &[u8]) -> Result<ChatRequest, Fault> {
        let value = json::read(body)?;
        ChatRequest::read_exact(&value, numbers::exact(body))
    }

    /// Reads a request from parsed JSON.
    ///
    /// # Errors
    /// A field with an invalid or unsupported value.
    pub fn read(value: &Value) -> Result<ChatRequest, Fault> {
        ChatRequest::read_exact(value, Vec::new())
    }

    /// Reads a request, given the numbers of its text that a double cannot represent exactly.
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
            resume: Resume::read(&body)?,
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
        if let Some(resume) = &self.resume {
            resume.check(&Resumed {
                answers: ("n", self.n),
                max_tokens: self.max_tokens,
                whole_logprobs: self.logprobs.is_some() && !self.stream.on,
                of_prompt: self.prompt_logprobs.map(|_| "prompt_logprobs"),
            })?;
        }
        self.check_continuation()
    }
}

impl ChatRequest {
    /// Checks `best_of`, which OpenAI's chat does not have: answers are not ranked.
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

/// A whole response.
#[derive(Debug, Clone, Serialize)]
pub struct ChatCompletion {
    /// Id: `chatcmpl-…`.
    pub id: String,
    /// Always `chat.completion`.
    pub object: &'static str,
    /// Creation time, in Unix seconds.
    pub created: u64,
    /// Name of the answering model.
    pub model: String,
    /// Version of the server.
    pub system_fingerprint: &'static str,
    /// The answers, by index.
    pub choices: Vec<Choice>,
    /// Token counts.
    pub usage: Usage,
    /// Token ids of the prompt, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
    /// Log-probabilities of the prompt, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_logprobs: Option<logprobs::Prompt>,
}

/// One answer of a whole response.
#[derive(Debug, Clone, Serialize)]
pub struct Choice {
    /// Index of the choice, from 0.
    pub index: usize,
    /// The answer.
    pub message: AssistantMessage,
    /// Log-probabilities, if requested.
    pub logprobs: Option<logprobs::Chat>,
    /// Finish reason: `stop`, `length` or `tool_calls`.
    pub finish_reason: &'static str,
    /// The stop string or token that matched.
    pub stop_reason: Option<StopReason>,
    /// Token ids of the answer, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
}

/// A message of the assistant.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AssistantMessage {
    /// Always `assistant`.
    pub role: &'static str,
    /// The text; null for tool calls without text.
    pub content: Option<String>,
    /// Always null.
    pub refusal: Option<String>,
    /// The reasoning, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Tool calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}

/// A tool call, or in a stream a piece of one.
#[derive(Debug, Clone, Serialize)]
pub struct ToolCall {
    /// Index of the call in the answer, in a stream only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// Id by which the message with the result refers to the call; in a stream only in the call's first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Always `function`; in a stream only in the call's first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<&'static str>,
    /// The called function.
    pub function: FunctionCall,
}

/// A function and its arguments.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FunctionCall {
    /// The function's name; in a stream only in the call's first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Arguments as JSON text, or in a stream a piece of it.
    pub arguments: String,
}

/// An event of a stream.
#[derive(Debug, Clone, Serialize)]
pub struct ChatCompletionChunk<'a> {
    /// Id of the response, the same in all events.
    pub id: &'a str,
    /// Always `chat.completion.chunk`.
    pub object: &'static str,
    /// Creation time, in Unix seconds.
    pub created: u64,
    /// Name of the answering model.
    pub model: &'a str,
    /// Version of the server.
    pub system_fingerprint: &'static str,
    /// One choice, or none in the event with the usage.
    pub choices: Vec<ChoiceDelta>,
    /// Token ids of the prompt, if requested, in a choice's first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<&'a [u32]>,
    /// Token counts in the last event, null before; absent unless requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Option<Usage>>,
}

/// The new part of a choice.
#[derive(Debug, Clone, Serialize)]
pub struct ChoiceDelta {
    /// Index of the choice, from 0.
    pub index: usize,
    /// The new part of the message.
    pub delta: MessageDelta,
    /// Log-probabilities of the new tokens, if requested.
    pub logprobs: Option<logprobs::Chat>,
    /// Finish reason, in the choice's last event.
    pub finish_reason: Option<&'static str>,
    /// The stop string or token that matched, in the choice's last event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<Option<StopReason>>,
    /// Ids of the new tokens, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
}

/// The new part of a message.
#[derive(Debug, Clone, Default, Serialize)]
pub struct MessageDelta {
    /// Always `assistant`; in the choice's first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// Text to append to the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Text to append to the reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Pieces of tool calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}
