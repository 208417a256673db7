//! Why an answer ended.

use crate::Dialect;

/// Why an answer ended, with one meaning for all dialects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinishReason {
    /// The model ended its turn.
    Stop,
    /// A stop sequence of the request came up; only Anthropic tells that from `Stop`.
    StopSequence,
    /// The limit of tokens was reached.
    Length,
    /// The model calls tools.
    ToolCalls,
    /// The provider's filter held the answer back, or cut it.
    ContentFilter,
    /// The model declined (Anthropic's `refusal`).
    Refusal,
    /// The provider paused a long turn of its own tools (Anthropic's `pause_turn`).
    Pause,
    /// Another reason, such as Gemini's `MALFORMED_FUNCTION_CALL`: the answer is not what was asked for.
    Other,
}

impl FinishReason {
    /// The reason that a dialect's word stands for; for the Responses API, a `status` or `incomplete_details.reason`.
    pub fn read(dialect: Dialect, word: &str) -> FinishReason {
        match (dialect, word) {
            (Dialect::OpenAiChat, "stop") => FinishReason::Stop,
            (Dialect::OpenAiChat, "length") => FinishReason::Length,
            (Dialect::OpenAiChat, "tool_calls" | "function_call") => FinishReason::ToolCalls,
            (Dialect::OpenAiChat, "content_filter") => FinishReason::ContentFilter,
            (Dialect::OpenAiResponses, "completed") => FinishReason::Stop,
            // A response that is incomplete without a reason has run out of space.
            (Dialect::OpenAiResponses, "max_output_tokens" | "max_tokens" | "incomplete") => {
                FinishReason::Length
            }
            (Dialect::OpenAiResponses, "content_filter") => FinishReason::ContentFilter,
            (Dialect::Anthropic, "end_turn") => FinishReason::Stop,
            (Dialect::Anthropic, "stop_sequence") => FinishReason::StopSequence,
            (Dialect::Anthropic, "max_tokens" | "model_context_window_exceeded") => FinishReason::Length,
            (Dialect::Anthropic, "tool_use") => FinishReason::ToolCalls,
            (Dialect::Anthropic, "refusal") => FinishReason::Refusal,
            (Dialect::Anthropic, "pause_turn") => FinishReason::Pause,
            (Dialect::Gemini, "STOP") => FinishReason::Stop,
            (Dialect::Gemini, "MAX_TOKENS") => FinishReason::Length,
            (
                Dialect::Gemini,
                "SAFETY"
                | "RECITATION"
                | "BLOCKLIST"
                | "PROHIBITED_CONTENT"
                | "SPII"
                | "IMAGE_SAFETY"
                | "IMAGE_PROHIBITED_CONTENT"
                | "IMAGE_RECITATION"
                | "MODEL_ARMOR",
            ) => FinishReason::ContentFilter,
            _ => FinishReason::Other,
        }
    }

    /// The dialect's word. The Responses API has a status instead: `completed`, or `incomplete` with this reason.
    pub fn write(self, dialect: Dialect) -> &'static str {
        match (dialect, self) {
            (Dialect::OpenAiChat, FinishReason::Length) => "length",
            (Dialect::OpenAiChat, FinishReason::ToolCalls) => "tool_calls",
            (Dialect::OpenAiChat, FinishReason::ContentFilter | FinishReason::Refusal) => "content_filter",
            (Dialect::OpenAiChat, _) => "stop",
            (Dialect::OpenAiResponses, FinishReason::Length) => "max_output_tokens",
            (Dialect::OpenAiResponses, FinishReason::ContentFilter | FinishReason::Refusal) => {
                "content_filter"
            }
            (Dialect::OpenAiResponses, _) => "completed",
            (Dialect::Anthropic, FinishReason::Length) => "max_tokens",
            (Dialect::Anthropic, FinishReason::ToolCalls) => "tool_use",
            (Dialect::Anthropic, FinishReason::ContentFilter | FinishReason::Refusal) => "refusal",
            (Dialect::Anthropic, FinishReason::StopSequence) => "stop_sequence",
            (Dialect::Anthropic, FinishReason::Pause) => "pause_turn",
            (Dialect::Anthropic, FinishReason::Stop | FinishReason::Other) => "end_turn",
            (Dialect::Gemini, FinishReason::Length) => "MAX_TOKENS",
            (Dialect::Gemini, FinishReason::ContentFilter | FinishReason::Refusal) => "SAFETY",
            (Dialect::Gemini, FinishReason::Other) => "OTHER",
            (Dialect::Gemini, _) => "STOP",
        }
    }
}
