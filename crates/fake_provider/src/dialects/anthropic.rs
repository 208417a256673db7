//! Anthropic's messages.

use super::stream::{Events, named};
use crate::Ending;
use crate::answer::Answer;
use bytes::Bytes;
use serde_json::{Map, Value, json};

fn stop_reason(ending: Ending) -> &'static str {
    match ending {
        Ending::Stop => "end_turn",
        Ending::Length => "max_tokens",
        Ending::ToolCall => "tool_use",
        Ending::Filtered => "refusal",
    }
}

/// Usage; here the cached tokens are not part of the input tokens.
fn usage(answer: &Answer, output: u64) -> Value {
    if answer.without_usage {
        return Value::Null;
    }
    json!({
        "input_tokens": answer.usage.prompt - answer.usage.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": answer.usage.cached,
        "output_tokens": output,
    })
}

fn message(answer: &Answer, content: Value, reason: Value, output: u64) -> Value {
    let mut value = json!({
        "id": format!("msg_{}", answer.id),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": null,
    });
    let usage = usage(answer, output);
    if !usage.is_null() {
        value["usage"] = usage;
    }
    value
}

/// A whole message.
pub(crate) fn whole(answer: &Answer) -> Value {
    let text = answer.text();
    let block = match &answer.tool {
        None => json!({"type": "text", "text": text}),
        Some(name) => json!({
            "type": "tool_use",
            "id": format!("toolu_{}", answer.id),
            "name": name,
            "input": serde_json::from_str(&text).unwrap_or(Value::Object(Map::new())),
        }),
    };
    message(answer, json!([block]), json!(stop_reason(answer.ending)), answer.usage.output)
}

/// The events of a stream, `message_stop` last.
pub(crate) struct MessageEvents<'a>(pub(crate) &'a Answer);

impl Events for MessageEvents<'_> {
    fn before(&self) -> Vec<Bytes> {
        let Self(answer) = self;
        let block = match &answer.tool {
            None => json!({"type": "text", "text": ""}),
            Some(name) => {
                json!({"type": "tool_use", "id": format!("toolu_{}", answer.id), "name": name, "input": {}})
            }
        };
        vec![
            named(&json!({"type": "message_start", "message": message(answer, json!([]), Value::Null, 1)})),
            named(&json!({"type": "content_block_start", "index": 0, "content_block": block})),
            named(&json!({"type": "ping"})),
        ]
    }

    fn count(&self) -> usize {
        self.0.tokens.len()
    }

    fn token(&self, index: usize) -> Bytes {
        let token = self.0.tokens.get(index);
        let delta = match &self.0.tool {
            None => json!({"type": "text_delta", "text": token}),
            Some(_) => json!({"type": "input_json_delta", "partial_json": token}),
        };
        named(&json!({"type": "content_block_delta", "index": 0, "delta": delta}))
    }

    fn after(&self) -> Vec<Bytes> {
        let mut last = json!({
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason(self.0.ending), "stop_sequence": null},
        });
        if !self.0.without_usage {
            last["usage"] = usage(self.0, self.0.usage.output);
        }
        vec![
            named(&json!({"type": "content_block_stop", "index": 0})),
            named(&last),
            named(&json!({"type": "message_stop"})),
        ]
    }

    fn closing(&self) -> usize {
        1
    }
}
