//! Tokens, as batches and jobs tell them.

use crate::job::Usage;
use serde::Serialize;

/// Tokens in the form of OpenAI's batches and responses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UsageObject {
    input_tokens: u64,
    input_tokens_details: InputDetails,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
    total_tokens: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct InputDetails {
    cached_tokens: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct OutputDetails {
    reasoning_tokens: u64,
}

/// The object of tokens.
pub fn usage_object(usage: Usage) -> UsageObject {
    UsageObject {
        input_tokens: usage.input_tokens,
        input_tokens_details: InputDetails { cached_tokens: usage.cached_tokens },
        output_tokens: usage.output_tokens,
        output_tokens_details: OutputDetails { reasoning_tokens: usage.reasoning_tokens },
        total_tokens: usage.total_tokens(),
    }
}
