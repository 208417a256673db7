//! Answers in Anthropic's shapes.

use serde::Serialize;
use serde_json::{Value, json};

use crate::error::Fault;

/// Why an answer ended, in this API's words. `sequence` is the stop string that was met, if one was.
pub fn stop_reason(finish_reason: &str, sequence: Option<&str>) -> &'static str {
    match finish_reason {
        "length" => "max_tokens",
        "tool_calls" => "tool_use",
        _ if sequence.is_some() => "stop_sequence",
        _ => "end_turn",
    }
}

/// Token counts. What was cached is not among the input tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Prompt tokens that were computed.
    pub input_tokens: usize,
    /// Prompt tokens whose keys and values were kept from before.
    pub cache_read_input_tokens: usize,
    /// Nothing is paid for keeping them.
    pub cache_creation_input_tokens: usize,
    /// Tokens generated.
    pub output_tokens: usize,
    /// What that cost, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<crate::Cost>,
}

impl Usage {
    /// From the counts of a chat completion.
    pub fn of(usage: &crate::Usage) -> Usage {
        let cached = usage.prompt_tokens_details.cached_tokens;
        Usage {
            input_tokens: usage.prompt_tokens - cached,
            cache_read_input_tokens: cached,
            cache_creation_input_tokens: 0,
            output_tokens: usage.completion_tokens,
            cost: usage.cost,
        }
    }
}

/// One block of an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// What is said.
    Text {
        /// The text.
        text: String,
    },
    /// What was thought.
    Thinking {
        /// The thought.
        thinking: String,
        /// Always empty: nothing is signed here.
        signature: String,
    },
    /// A tool is called.
    ToolUse {
        /// By which the result refers to it.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments, an object.
        input: Value,
    },
}

/// A whole answer, or how one begins.
#[derive(Debug, Clone, Serialize)]
pub struct Message<'a> {
    /// `msg_…`
    pub id: &'a str,
    /// `message`
    pub r#type: &'static str,
    /// `assistant`
    pub role: &'static str,
    /// The model's name.
    pub model: &'a str,
    /// What it says, in order.
    pub content: Vec<Block>,
    /// Why it ended.
    pub stop_reason: Option<&'static str>,
    /// The stop string that was met.
    pub stop_sequence: Option<&'a str>,
    /// Token counts.
    pub usage: Usage,
}

/// An error in this API's shape.
pub fn fault_json(fault: &Fault) -> Value {
    let kind = match fault.status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": fault.message}})
}
