//! Tokens that an upstream counted, with one meaning for all dialects.

use serde_json::{Map, Value, json};

use crate::Dialect;

/// Token counts of one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Tokens of the prompt, including `cached` and `cache_write`.
    pub input: u64,
    /// Part of `input` that was read from a prefix cache.
    pub cached: u64,
    /// Part of `input` that was written to a prefix cache, where that has a price of its own.
    pub cache_write: u64,
    /// Tokens of the answer, including `reasoning`.
    pub output: u64,
    /// Part of `output` that is thought.
    pub reasoning: u64,
}

impl TokenUsage {
    /// The counts in a dialect's object: `usage`, or Gemini's `usageMetadata`. Nothing if it is no object.
    pub fn read(dialect: Dialect, usage: &Value) -> Option<TokenUsage> {
        let usage = usage.as_object()?;
        let count = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
        let detail = |name: &str, part: &str| {
            usage.get(name).and_then(|details| details.get(part)).and_then(Value::as_u64).unwrap_or(0)
        };
        let read = match dialect {
            // Embeddings have `prompt_tokens` alone; the Responses API has the other names.
            Dialect::OpenAiChat => TokenUsage {
                input: count("prompt_tokens"),
                cached: detail("prompt_tokens_details", "cached_tokens"),
                cache_write: detail("prompt_tokens_details", "cache_write_tokens"),
                output: count("completion_tokens"),
                reasoning: detail("completion_tokens_details", "reasoning_tokens"),
            },
            Dialect::OpenAiResponses => TokenUsage {
                input: count("input_tokens"),
                cached: detail("input_tokens_details", "cached_tokens"),
                cache_write: detail("input_tokens_details", "cache_write_tokens"),
                output: count("output_tokens"),
                reasoning: detail("output_tokens_details", "reasoning_tokens"),
            },
            Dialect::Anthropic => {
                let cached = count("cache_read_input_tokens");
                let cache_write = count("cache_creation_input_tokens");
                TokenUsage {
                    input: count("input_tokens").saturating_add(cached).saturating_add(cache_write),
                    cached,
                    cache_write,
                    output: count("output_tokens"),
                    reasoning: detail("output_tokens_details", "thinking_tokens"),
                }
            }
            Dialect::Gemini => {
                let reasoning = count("thoughtsTokenCount");
                TokenUsage {
                    input: count("promptTokenCount").saturating_add(count("toolUsePromptTokenCount")),
                    cached: count("cachedContentTokenCount"),
                    cache_write: 0,
                    output: count("candidatesTokenCount").saturating_add(reasoning),
                    reasoning,
                }
            }
        };
        Some(read)
    }

    /// The counts as a dialect's object.
    pub fn write(&self, dialect: Dialect) -> Value {
        let total = self.input.saturating_add(self.output);
        match dialect {
            Dialect::OpenAiChat => json!({
                "prompt_tokens": self.input,
                "completion_tokens": self.output,
                "total_tokens": total,
                "prompt_tokens_details": self.cache_details(),
                "completion_tokens_details": {"reasoning_tokens": self.reasoning},
            }),
            Dialect::OpenAiResponses => json!({
                "input_tokens": self.input,
                "input_tokens_details": {
                    "cached_tokens": self.cached, "cache_write_tokens": self.cache_write,
                },
                "output_tokens": self.output,
                "output_tokens_details": {"reasoning_tokens": self.reasoning},
                "total_tokens": total,
            }),
            Dialect::Anthropic => {
                let uncached = self.input.saturating_sub(self.cached).saturating_sub(self.cache_write);
                let mut usage = json!({
                    "input_tokens": uncached,
                    "cache_creation_input_tokens": self.cache_write,
                    "cache_read_input_tokens": self.cached,
                    "output_tokens": self.output,
                });
                if self.reasoning > 0 {
                    usage["output_tokens_details"] = json!({"thinking_tokens": self.reasoning});
                }
                usage
            }
            Dialect::Gemini => {
                let mut usage = json!({
                    "promptTokenCount": self.input,
                    "candidatesTokenCount": self.output.saturating_sub(self.reasoning),
                    "totalTokenCount": total,
                });
                if self.cached > 0 {
                    usage["cachedContentTokenCount"] = self.cached.into();
                }
                if self.reasoning > 0 {
                    usage["thoughtsTokenCount"] = self.reasoning.into();
                }
                usage
            }
        }
    }

    fn cache_details(&self) -> Value {
        let mut details = Map::new();
        details.insert("cached_tokens".into(), self.cached.into());
        if self.cache_write > 0 {
            details.insert("cache_write_tokens".into(), self.cache_write.into());
        }
        Value::Object(details)
    }

    /// The larger of each count: streams report cumulative counts, and not all of them in each event.
    #[must_use]
    pub fn merge(self, other: TokenUsage) -> TokenUsage {
        TokenUsage {
            input: self.input.max(other.input),
            cached: self.cached.max(other.cached),
            cache_write: self.cache_write.max(other.cache_write),
            output: self.output.max(other.output),
            reasoning: self.reasoning.max(other.reasoning),
        }
    }
}
