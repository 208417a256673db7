//! A whole chat completion from the chunks of its stream.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Tool calls of an answer, at most.
const CALLS: u64 = 1_024;

/// The parts of an answer with one choice.
#[derive(Default)]
struct Parts {
    head: Map<String, Value>,
    /// Texts of the message by field: `content`, `reasoning_content`, `refusal`.
    texts: BTreeMap<String, String>,
    calls: BTreeMap<u64, Call>,
    /// Tokens of `logprobs`, by list: `content`, `refusal`.
    logprobs: BTreeMap<String, Vec<Value>>,
    finish: Value,
    has_choice: bool,
}

#[derive(Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

/// The completion that a stream of events says; nothing if there is no choice in it.
pub(super) fn completion(events: &[u8]) -> Option<Vec<u8>> {
    let mut parts = Parts::default();
    for line in events.split(|byte| *byte == b'\n') {
        let Some(data) = line.strip_prefix(b"data:") else { continue };
        if let Ok(Value::Object(chunk)) = serde_json::from_slice(data) {
            parts.chunk(chunk);
        }
    }
    parts.has_choice.then(|| parts.whole().to_string().into_bytes())
}

impl Parts {
    fn chunk(&mut self, mut chunk: Map<String, Value>) {
        let choices = chunk.remove("choices");
        for (name, value) in chunk {
            // Of usage the last one counts, which is that of the end.
            if !value.is_null() && (name == "usage" || !self.head.contains_key(&name)) {
                self.head.insert(name, value);
            }
        }
        for choice in choices.as_ref().and_then(Value::as_array).into_iter().flatten() {
            if choice["index"].as_u64().unwrap_or(0) == 0 {
                self.choice(choice);
            }
        }
    }

    fn choice(&mut self, choice: &Value) {
        self.has_choice = true;
        for (name, value) in choice["delta"].as_object().into_iter().flatten() {
            match value {
                Value::String(text) if name != "role" => {
                    self.texts.entry(name.clone()).or_default().push_str(text);
                }
                Value::Array(calls) if name == "tool_calls" => calls.iter().for_each(|call| self.call(call)),
                _ => {}
            }
        }
        for (name, tokens) in choice["logprobs"].as_object().into_iter().flatten() {
            if let Some(tokens) = tokens.as_array() {
                self.logprobs.entry(name.clone()).or_default().extend(tokens.iter().cloned());
            }
        }
        if !choice["finish_reason"].is_null() {
            self.finish = choice["finish_reason"].clone();
        }
    }

    fn call(&mut self, from: &Value) {
        let index = from["index"].as_u64().unwrap_or(0).min(CALLS);
        let call = self.calls.entry(index).or_default();
        let function = &from["function"];
        for (text, part) in [
            (&mut call.id, &from["id"]),
            (&mut call.name, &function["name"]),
            (&mut call.arguments, &function["arguments"]),
        ] {
            text.push_str(part.as_str().unwrap_or_default());
        }
    }

    fn whole(mut self) -> Value {
        let mut message = Map::new();
        message.insert("role".to_owned(), Value::from("assistant"));
        let content = self.texts.remove("content").filter(|text| !text.is_empty() || self.calls.is_empty());
        message.insert("content".to_owned(), content.map_or(Value::Null, Value::from));
        for (name, text) in self.texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            message.insert(name, Value::from(text));
        }
        if !self.calls.is_empty() {
            let call = |call: &Call| {
                let function = json!({"name": call.name, "arguments": call.arguments});
                json!({"id": call.id, "type": "function", "function": function})
            };
            message.insert("tool_calls".to_owned(), self.calls.values().map(call).collect());
        }
        let logprobs = if self.logprobs.is_empty() { Value::Null } else { json!(self.logprobs) };
        let choice =
            json!({"index": 0, "message": message, "logprobs": logprobs, "finish_reason": self.finish});
        let mut whole = self.head;
        whole.insert("object".to_owned(), Value::from("chat.completion"));
        let usage = whole.remove("usage");
        whole.insert("choices".to_owned(), json!([choice]));
        whole.extend(usage.map(|usage| ("usage".to_owned(), usage)));
        Value::Object(whole)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

    use super::*;

    fn whole(chunks: &[Value]) -> Value {
        let events: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
        serde_json::from_slice(&completion(format!("{events}data: [DONE]\n\n").as_bytes()).unwrap()).unwrap()
    }

    fn chunk(delta: Value, finish: Value) -> Value {
        json!({"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "m",
               "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": null})
    }

    #[test]
    fn texts_and_usage_are_joined() {
        let answer = whole(&[
            chunk(json!({"role": "assistant", "content": "", "refusal": null}), Value::Null),
            chunk(json!({"reasoning_content": "hm"}), Value::Null),
            chunk(json!({"content": "one "}), Value::Null),
            chunk(json!({"content": "two"}), Value::Null),
            chunk(json!({}), json!("stop")),
            json!({"id": "c1", "choices": [], "usage": {"prompt_tokens": 3}}),
        ]);
        assert_eq!(
            answer,
            json!({"id": "c1", "object": "chat.completion", "created": 7, "model": "m", "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": "one two", "reasoning_content": "hm"},
                "logprobs": null, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}})
        );
    }

    #[test]
    fn calls_are_joined_by_their_index() {
        let piece = |index: u64, id: &str, name: &str, arguments: &str| json!({"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}]});
        let answer = whole(&[
            chunk(piece(0, "a", "f", ""), Value::Null),
            chunk(piece(1, "b", "g", "{"), Value::Null),
            chunk(piece(0, "", "", "{}"), Value::Null),
            chunk(piece(1, "", "", "}"), json!("tool_calls")),
        ]);
        let message = &answer["choices"][0]["message"];
        assert_eq!(message["content"], Value::Null);
        assert_eq!(message["tool_calls"][1]["function"], json!({"name": "g", "arguments": "{}"}));
        assert_eq!(message["tool_calls"][0]["id"], "a");
    }

    #[test]
    fn a_stream_without_a_choice_is_no_answer() {
        assert_eq!(completion(b"data: {\"choices\":[]}\n\ndata: x\n\n"), None);
    }
}
