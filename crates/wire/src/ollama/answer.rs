//! Answers of `/api/chat` and `/api/generate`: whole, or a line of a stream.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::error::Fault;
use crate::logprobs::{Chat, Position};

/// A whole answer, or a line of a stream.
#[derive(Debug, Clone, Serialize)]
pub struct Answer<'a> {
    /// The model's name, as the request has it.
    pub model: &'a str,
    /// When this was written, RFC 3339.
    pub created_at: String,
    /// What is said; in a stream, what is new.
    #[serde(flatten)]
    pub said: Said,
    /// Whether this is the end.
    pub done: bool,
    /// `stop`, `length`, `load` or `unload`; at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done_reason: Option<&'static str>,
    /// Log-probabilities of the tokens, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<Value>,
    /// Counts and times; at the end of an answer.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
}

/// What is said, in the place that an endpoint has for it.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Said {
    /// `/api/chat`'s.
    Chat {
        /// The assistant's message.
        message: Message,
    },
    /// `/api/generate`'s.
    Text {
        /// The text.
        response: String,
        /// What the model thought, if it did.
        #[serde(skip_serializing_if = "String::is_empty")]
        thinking: String,
    },
}

/// An assistant's message.
#[derive(Debug, Clone, Serialize)]
pub struct Message {
    role: &'static str,
    content: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    thinking: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Called>,
}

impl Said {
    /// A message; `tool_calls` are complete.
    pub fn chat(content: String, thinking: String, tool_calls: Vec<Called>) -> Said {
        Said::Chat { message: Message { role: "assistant", content, thinking, tool_calls } }
    }
}

/// A tool that is called.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Called {
    /// By which a message with the result may refer to it.
    pub id: String,
    /// What is called.
    pub function: Function,
}

/// A function and its arguments.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Function {
    /// Which call of the answer, from 0.
    pub index: usize,
    /// The tool's name.
    pub name: String,
    /// The arguments: an object.
    pub arguments: Value,
}

impl Called {
    /// A call whose arguments are this JSON text; none if they are no JSON, as those of a call that was cut.
    pub fn complete(index: usize, id: &str, name: &str, arguments: &str) -> Option<Called> {
        let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
        let arguments = serde_json::from_str(arguments).ok()?;
        Some(Called { id: id.to_owned(), function: Function { index, name: name.to_owned(), arguments } })
    }
}

/// Counts, and times in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Metrics {
    /// From the request to its end.
    pub total_duration: u64,
    /// In which the request waited for its model.
    pub load_duration: u64,
    /// Tokens of the prompt.
    pub prompt_eval_count: usize,
    /// From there to the first token, the time in the queue included.
    pub prompt_eval_duration: u64,
    /// Tokens of the answer.
    pub eval_count: usize,
    /// From the first token to the end.
    pub eval_duration: u64,
}

impl Metrics {
    /// Whole nanoseconds of a time.
    pub fn nanoseconds(time: Duration) -> u64 {
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// `logprobs` of some tokens; none where there are none.
pub fn logprobs(positions: &[Position]) -> Option<Value> {
    if positions.is_empty() {
        return None;
    }
    let mut chat = serde_json::to_value(Chat::new(positions)).ok()?;
    Some(chat["content"].take())
}

/// Why an answer ended, in Ollama's words: calls of tools are a stop there.
pub fn done_reason(finish_reason: &str) -> &'static str {
    if finish_reason == "length" { "length" } else { "stop" }
}

/// A line of a stream.
pub fn line<T: Serialize>(answer: &T) -> String {
    let mut json = serde_json::to_string(answer).expect("answers have string keys, which serialize");
    json.push('\n');
    json
}

/// A fault in this API's shape.
pub fn fault(fault: &Fault) -> Value {
    json!({"error": fault.message})
}
