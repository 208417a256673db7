//! OpenAI's Responses.

use super::stream::{Events, named};
use crate::Ending;
use crate::answer::Answer;
use bytes::Bytes;
use serde_json::{Value, json};

fn item_id(answer: &Answer) -> String {
    format!("{}_{}", if answer.tool.is_some() { "fc" } else { "msg" }, answer.id)
}

/// The output item, with the text so far.
fn item(answer: &Answer, text: Option<&str>, status: &str) -> Value {
    match &answer.tool {
        None => {
            let content: Vec<Value> = text.map(part).into_iter().collect();
            json!({"type": "message", "id": item_id(answer), "status": status, "role": "assistant",
                "content": content})
        }
        Some(name) => json!({"type": "function_call", "id": item_id(answer), "status": status, "name": name,
            "call_id": format!("call_{}", answer.id), "arguments": text.unwrap_or("")}),
    }
}

fn response(answer: &Answer, status: &str, output: Value, counted: bool) -> Value {
    let incomplete = match answer.ending {
        _ if status != "incomplete" => Value::Null,
        Ending::Filtered => json!({"reason": "content_filter"}),
        _ => json!({"reason": "max_output_tokens"}),
    };
    let usage = if counted && !answer.without_usage {
        json!({
            "input_tokens": answer.usage.prompt,
            "input_tokens_details": {"cached_tokens": answer.usage.cached},
            "output_tokens": answer.usage.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answer.usage.prompt + answer.usage.output,
        })
    } else {
        Value::Null
    };
    json!({
        "id": format!("resp_{}", answer.id),
        "object": "response",
        "created_at": answer.created,
        "status": status,
        "error": null,
        "incomplete_details": incomplete,
        "model": answer.model,
        "output": output,
        "parallel_tool_calls": true,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    })
}

fn last_status(answer: &Answer) -> &'static str {
    match answer.ending {
        Ending::Stop | Ending::ToolCall => "completed",
        Ending::Length | Ending::Filtered => "incomplete",
    }
}

/// A whole response.
pub(crate) fn whole(answer: &Answer) -> Value {
    let status = last_status(answer);
    let text = answer.text();
    response(answer, status, json!([item(answer, Some(&text), status)]), true)
}

/// The events of a stream; `response.completed` or `response.incomplete` is last.
pub(crate) struct ResponseEvents<'a>(pub(crate) &'a Answer);

impl ResponseEvents<'_> {
    fn is_text(&self) -> bool {
        self.0.tool.is_none()
    }

    /// Events before the first token.
    fn opening(&self) -> usize {
        if self.is_text() { 4 } else { 3 }
    }

    /// What the tokens are, at the beginning of the events' names.
    fn kind(&self) -> &'static str {
        if self.is_text() { "response.output_text" } else { "response.function_call_arguments" }
    }

    /// The place of the output's only part, and one further field.
    fn placed(&self, field: &str, value: Value) -> Value {
        let mut fields = json!({"item_id": item_id(self.0), "output_index": 0, "content_index": 0});
        fields[field] = value;
        fields
    }
}

fn event(kind: &str, number: usize, fields: Value) -> Bytes {
    let mut value = json!({"type": kind, "sequence_number": number});
    if let (Value::Object(value), Value::Object(fields)) = (&mut value, fields) {
        value.extend(fields);
    }
    named(&value)
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

impl Events for ResponseEvents<'_> {
    fn before(&self) -> Vec<Bytes> {
        let begun = response(self.0, "in_progress", json!([]), false);
        let added = json!({"output_index": 0, "item": item(self.0, None, "in_progress")});
        let mut before = vec![
            event("response.created", 0, json!({"response": begun})),
            event("response.in_progress", 1, json!({"response": begun})),
            event("response.output_item.added", 2, added),
        ];
        if self.is_text() {
            before.push(event("response.content_part.added", 3, self.placed("part", part(""))));
        }
        before
    }

    fn count(&self) -> usize {
        self.0.tokens.len()
    }

    fn token(&self, index: usize) -> Bytes {
        let delta = self.placed("delta", json!(self.0.tokens.get(index)));
        event(&format!("{}.delta", self.kind()), self.opening() + index, delta)
    }

    fn after(&self) -> Vec<Bytes> {
        let (text, status) = (self.0.text(), last_status(self.0));
        let whole = if self.is_text() { "text" } else { "arguments" };
        let done = item(self.0, Some(&text), status);
        let last = response(self.0, status, json!([done]), true);
        let mut all = vec![(format!("{}.done", self.kind()), self.placed(whole, json!(text)))];
        if self.is_text() {
            all.push(("response.content_part.done".to_owned(), self.placed("part", part(&text))));
        }
        all.push(("response.output_item.done".to_owned(), json!({"output_index": 0, "item": done})));
        all.push((format!("response.{status}"), json!({"response": last})));
        let first = self.opening() + self.count();
        let numbered = all.into_iter().enumerate();
        numbered.map(|(index, (kind, fields))| event(&kind, first + index, fields)).collect()
    }

    fn closing(&self) -> usize {
        1
    }
}
