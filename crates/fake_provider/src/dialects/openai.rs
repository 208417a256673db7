//! OpenAI's chat completions, completions and embeddings.

use super::stream::{Events, data};
use crate::answer::Answer;
use crate::{Dialect, Ending, Usage};
use bytes::Bytes;
use serde_json::{Value, json};

pub(super) fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": 0},
    })
}

fn finish_reason(ending: Ending) -> &'static str {
    match ending {
        Ending::Stop => "stop",
        Ending::Length => "length",
        Ending::ToolCall => "tool_calls",
        Ending::Filtered => "content_filter",
    }
}

/// The fields of every object: id, kind, time and model.
fn head(answer: &Answer, prefix: &str, object: &str) -> Value {
    json!({
        "id": format!("{prefix}-{}", answer.id),
        "object": object,
        "created": answer.created,
        "model": answer.model,
        "system_fingerprint": "fp_fake",
    })
}

fn with_usage(mut value: Value, answer: &Answer) -> Value {
    if !answer.without_usage {
        value["usage"] = usage(answer.usage);
    }
    value
}

/// Log-probabilities of tokens of a chat answer, with a second candidate for each.
fn logprobs(answer: &Answer, tokens: std::ops::Range<usize>) -> Value {
    let Some(last) = answer.margins.last() else { return Value::Null };
    let token = |index: usize| {
        let margin = answer.margins.get(index).unwrap_or(last);
        let first = -(-margin).exp().ln_1p();
        let word = answer.tokens.get(index);
        let top = |token: &str, logprob: f64| json!({"token": token, "logprob": logprob, "bytes": null});
        let both = [top(&word, first), top(" other", first - margin)];
        json!({"token": word, "logprob": first, "bytes": null, "top_logprobs": both})
    };
    json!({"content": tokens.map(token).collect::<Vec<_>>(), "refusal": null})
}

/// A whole chat completion.
pub(crate) fn chat(answer: &Answer) -> Value {
    let text = answer.text();
    let message = match &answer.tool {
        None => json!({"role": "assistant", "content": text, "refusal": null}),
        Some(name) => json!({
            "role": "assistant",
            "content": null,
            "tool_calls": [{
                "id": format!("call_{}", answer.id),
                "type": "function",
                "function": {"name": name, "arguments": text},
            }],
        }),
    };
    let mut value = head(answer, "chatcmpl", "chat.completion");
    let reason = finish_reason(answer.ending);
    value["choices"] = json!([{"index": 0, "message": message,
        "logprobs": logprobs(answer, 0..answer.tokens.len()), "finish_reason": reason}]);
    with_usage(value, answer)
}

/// A whole completion.
pub(crate) fn completion(answer: &Answer) -> Value {
    let mut value = head(answer, "cmpl", "text_completion");
    let reason = finish_reason(answer.ending);
    value["choices"] =
        json!([{"index": 0, "text": answer.text(), "logprobs": null, "finish_reason": reason}]);
    with_usage(value, answer)
}

/// Embeddings, as numbers or as the base64 of little-endian floats.
pub(crate) fn embeddings(answer: &Answer) -> Value {
    let rows = answer.vectors.iter().enumerate().map(|(index, vector)| {
        let values = if answer.base64 {
            let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
            json!(base64(&bytes))
        } else {
            json!(vector)
        };
        json!({"object": "embedding", "index": index, "embedding": values})
    });
    let rows: Vec<Value> = rows.collect();
    let mut value = json!({"object": "list", "data": rows, "model": answer.model});
    if !answer.without_usage {
        value["usage"] = json!({"prompt_tokens": answer.usage.prompt, "total_tokens": answer.usage.prompt});
    }
    value
}

/// Base64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word =
            group.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            let value = (word >> (18 - 6 * digit)) as usize & 63;
            text.push(if digit <= group.len() { char::from(DIGITS[value]) } else { '=' });
        }
    }
    text
}

/// The chunks of a stream, `[DONE]` last.
pub(crate) struct Chunks<'a>(pub(crate) &'a Answer);

impl Chunks<'_> {
    fn is_chat(&self) -> bool {
        self.0.dialect == Dialect::Chat
    }

    fn counts(&self) -> bool {
        self.0.include_usage && !self.0.without_usage
    }

    fn chunk(&self, choices: Value, counted: Option<Value>) -> Bytes {
        let mut value = if self.is_chat() {
            head(self.0, "chatcmpl", "chat.completion.chunk")
        } else {
            head(self.0, "cmpl", "text_completion")
        };
        value["choices"] = choices;
        if self.counts() {
            value["usage"] = counted.unwrap_or(Value::Null);
        }
        data(&value)
    }

    fn choice(&self, delta: Value, reason: Value) -> Bytes {
        self.choice_with(delta, reason, Value::Null)
    }

    fn choice_with(&self, delta: Value, reason: Value, logprobs: Value) -> Bytes {
        let mut choice = json!({"index": 0});
        if self.is_chat() {
            choice["delta"] = delta;
        } else {
            choice["text"] = json!(delta["content"].as_str().unwrap_or(""));
        }
        choice["logprobs"] = logprobs;
        choice["finish_reason"] = reason;
        self.chunk(json!([choice]), None)
    }
}

impl Events for Chunks<'_> {
    fn before(&self) -> Vec<Bytes> {
        let opening = match &self.0.tool {
            None => json!({"role": "assistant", "content": "", "refusal": null}),
            Some(name) => json!({"role": "assistant", "content": null, "tool_calls": [{
                "index": 0, "id": format!("call_{}", self.0.id), "type": "function",
                "function": {"name": name, "arguments": ""}}]}),
        };
        if self.is_chat() { vec![self.choice(opening, Value::Null)] } else { Vec::new() }
    }

    fn count(&self) -> usize {
        self.0.tokens.len()
    }

    fn token(&self, index: usize) -> Bytes {
        let token = self.0.tokens.get(index);
        let delta = match &self.0.tool {
            None => json!({"content": token}),
            Some(_) => json!({"tool_calls": [{"index": 0, "function": {"arguments": token}}]}),
        };
        let logprobs = if self.is_chat() { logprobs(self.0, index..index + 1) } else { Value::Null };
        self.choice_with(delta, Value::Null, logprobs)
    }

    fn after(&self) -> Vec<Bytes> {
        let mut after = vec![self.choice(json!({}), json!(finish_reason(self.0.ending)))];
        if self.counts() {
            after.push(self.chunk(json!([]), Some(usage(self.0.usage))));
        }
        after.push(Bytes::from_static(b"data: [DONE]\n\n"));
        after
    }

    fn closing(&self) -> usize {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_is_that_of_the_standard() {
        // RFC 4648, section 10.
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
