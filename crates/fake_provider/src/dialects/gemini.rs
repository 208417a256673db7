//! Gemini's `generateContent` and `streamGenerateContent`.

use super::stream::{Events, data};
use crate::Ending;
use crate::answer::Answer;
use bytes::Bytes;
use serde_json::{Map, Value, json};

fn finish_reason(ending: Ending) -> &'static str {
    match ending {
        Ending::Stop | Ending::ToolCall => "STOP",
        Ending::Length => "MAX_TOKENS",
        Ending::Filtered => "SAFETY",
    }
}

/// A response with these parts; `output` tokens have been generated so far.
fn response(answer: &Answer, parts: Value, reason: Option<&str>, output: u64) -> Value {
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
    if let Some(reason) = reason {
        candidate["finishReason"] = json!(reason);
    }
    let mut value = json!({"candidates": [candidate], "modelVersion": answer.model, "responseId": answer.id});
    if !answer.without_usage {
        value["usageMetadata"] = json!({
            "promptTokenCount": answer.usage.prompt,
            "candidatesTokenCount": output,
            "totalTokenCount": answer.usage.prompt + output,
            "cachedContentTokenCount": answer.usage.cached,
        });
    }
    value
}

fn parts(answer: &Answer, text: &str) -> Value {
    match &answer.tool {
        None => json!([{"text": text}]),
        Some(name) => {
            let arguments: Value = serde_json::from_str(text).unwrap_or(Value::Object(Map::new()));
            json!([{"functionCall": {"name": name, "args": arguments}}])
        }
    }
}

/// A whole response.
pub(crate) fn whole(answer: &Answer) -> Value {
    let reason = finish_reason(answer.ending);
    response(answer, parts(answer, &answer.text()), Some(reason), answer.usage.output)
}

/// A stream: one response a token, as events or as the elements of an array. A call of a tool comes in one piece. The
/// last response has the finish reason.
pub(crate) struct Responses<'a> {
    pub(crate) answer: &'a Answer,
    pub(crate) array: bool,
}

impl Responses<'_> {
    fn write(&self, first: bool, value: &Value) -> Bytes {
        match (self.array, first) {
            (false, _) => data(value),
            (true, true) => Bytes::from(format!("[{value}")),
            (true, false) => Bytes::from(format!(",\r\n{value}")),
        }
    }
}

impl Events for Responses<'_> {
    fn before(&self) -> Vec<Bytes> {
        Vec::new()
    }

    fn count(&self) -> usize {
        if self.answer.tool.is_some() { 1 } else { self.answer.tokens.len() }
    }

    fn token(&self, index: usize) -> Bytes {
        let text =
            if self.answer.tool.is_some() { self.answer.text() } else { self.answer.tokens.get(index) };
        let value = response(self.answer, parts(self.answer, &text), None, index as u64 + 1);
        self.write(index == 0, &value)
    }

    fn after(&self) -> Vec<Bytes> {
        let reason = finish_reason(self.answer.ending);
        let last = response(self.answer, json!([{"text": ""}]), Some(reason), self.answer.usage.output);
        let mut after = vec![self.write(self.count() == 0, &last)];
        if self.array {
            after.push(Bytes::from_static(b"]"));
        }
        after
    }

    fn closing(&self) -> usize {
        if self.array { 2 } else { 1 }
    }
}
