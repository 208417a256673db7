//! Responses and errors in Anthropic's format.

use serde::Serialize;
use serde_json::{Value, json};

use crate::error::Fault;

/// Anthropic's `stop_reason` for a finish reason. `sequence` is the stop string that matched, if any.
pub fn stop_reason(finish_reason: &str, sequence: Option<&str>) -> &'static str {
    match finish_reason {
        "length" => "max_tokens",
        "tool_calls" => "tool_use",
        _ if sequence.is_some() => "stop_sequence",
        _ => "end_turn",
    }
}

/// Token counts. Cached tokens are not included in `input_tokens`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Prompt tokens computed.
    pub input_tokens: usize,
    /// Prompt tokens found in the prefix cache.
    pub cache_read_input_tokens: usize,
    /// Always 0: writing the prefix cache is not charged.
    pub cache_creation_input_tokens: usize,
    /// Generated tokens.
    pub output_tokens: usize,
    /// The request's cost, if requested (`include_cost`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<crate::Cost>,
}

impl Usage {
    /// Converts the token counts of a chat completion.
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

/// A content block of a response.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Text of the answer.
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning.
    Thinking {
        /// Text of the reasoning.
        thinking: String,
        /// Always empty: reasoning is not signed.
        signature: String,
    },
    /// A tool call.
    ToolUse {
        /// Id by which the result refers to the call.
        id: String,
        /// Name of the tool.
        name: String,
        /// Arguments, an object.
        input: Value,
    },
}

/// A whole response, or the message of a stream's first event.
#[derive(Debug, Clone, Serialize)]
pub struct Message<'a> {
    /// Id: `msg_…`.
    pub id: &'a str,
    /// Always `message`.
    pub r#type: &'static str,
    /// Always `assistant`.
    pub role: &'static str,
    /// Name of the answering model.
    pub model: &'a str,
    /// Content blocks, in order.
    pub content: Vec<Block>,
    /// Why the answer ended; null while it is streamed.
    pub stop_reason: Option<&'static str>,
    /// The stop string that matched.
    pub stop_sequence: Option<&'a str>,
    /// Token counts.
    pub usage: Usage,
}

/// An error in Anthropic's format.
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
