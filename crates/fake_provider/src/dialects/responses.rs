//! OpenAI's Responses.

use super::stream::{Events, named};
use crate::Ending;
use crate::answer::Answer;
use serde_json::{Value, json};

fn item_id(answer: &Answer) -> String {
    format!("{}_{}", if answer.tool.is_some() { "fc" } else { "msg" }, answer.id)
}

/// The output item, with the text so far.
fn item(answer: &Answer, text: Option<&str>, status: &str) -> Value {
    match &answer.tool {
        None => {
            let part = |text| json!({"type": "output_text", "text": text, "annotations": []});
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
pub(crate) fn events(answer: &Answer) -> Events {
    let id = item_id(answer);
    let text = answer.text();
    let status = last_status(answer);
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    let place = json!({"item_id": id, "output_index": 0, "content_index": 0});
    let mut number = 0u64;
    let mut event = |kind: &str, fields: Value| {
        let mut value = json!({"type": kind, "sequence_number": number});
        number += 1;
        if let (Value::Object(value), Value::Object(fields)) = (&mut value, fields) {
            value.extend(fields);
        }
        named(&value)
    };
    let placed = |field: &str, value: Value| {
        let mut fields = place.clone();
        fields[field] = value;
        fields
    };
    let begun = response(answer, "in_progress", json!([]), false);
    let mut before = vec![
        event("response.created", json!({"response": begun})),
        event("response.in_progress", json!({"response": begun})),
        event(
            "response.output_item.added",
            json!({"output_index": 0, "item": item(answer, None, "in_progress")}),
        ),
    ];
    let kind =
        if answer.tool.is_none() { "response.output_text" } else { "response.function_call_arguments" };
    if answer.tool.is_none() {
        before.push(event("response.content_part.added", placed("part", part(""))));
    }
    let delta = format!("{kind}.delta");
    let tokens: Vec<_> =
        answer.tokens.iter().map(|token| event(&delta, placed("delta", json!(token)))).collect();
    let whole = if answer.tool.is_none() { "text" } else { "arguments" };
    let mut after = vec![event(&format!("{kind}.done"), placed(whole, json!(text)))];
    if answer.tool.is_none() {
        after.push(event("response.content_part.done", placed("part", part(&text))));
    }
    let done = item(answer, Some(&text), status);
    after.push(event("response.output_item.done", json!({"output_index": 0, "item": done})));
    let last = response(answer, status, json!([done]), true);
    after.push(event(&format!("response.{status}"), json!({"response": last})));
    Events { before, tokens, after, closing: 1 }
}
