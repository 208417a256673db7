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
pub(crate) fn events(answer: &Answer, array: bool) -> Events {
    let reason = finish_reason(answer.ending);
    let write = |first: bool, value: Value| match (array, first) {
        (false, _) => data(&value),
        (true, true) => Bytes::from(format!("[{value}")),
        (true, false) => Bytes::from(format!(",\r\n{value}")),
    };
    let texts = match answer.tool {
        None => answer.tokens.clone(),
        Some(_) => vec![answer.text()],
    };
    let mut tokens = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        tokens.push(write(index == 0, response(answer, parts(answer, text), None, index as u64 + 1)));
    }
    let last = response(answer, json!([{"text": ""}]), Some(reason), answer.usage.output);
    let mut after = vec![write(tokens.is_empty(), last)];
    if array {
        after.push(Bytes::from_static(b"]"));
    }
    let closing = after.len();
    Events { before: Vec::new(), tokens, after, closing }
}
