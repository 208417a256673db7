//! What is taken of the body of an answer.

use crate::hashing::hex;
use crate::request::Key;
use serde_json::{Map, Value, json};

/// Hexadecimal digits of an identifier.
const DIGITS: usize = 24;

/// An identifier that is derived from a hash.
pub(crate) fn id(prefix: &str, key: &Key) -> String {
    format!("{prefix}{}", &hex(key)[..DIGITS])
}

/// Replaces what differs between two runs of the same request: identifiers, times, and what the cache held.
pub(crate) fn settle(body: &mut Value, key: &Key) {
    let Value::Object(fields) = body else { return };
    if let Some(Value::String(name)) = fields.get_mut("id") {
        let prefix = name.find(['-', '_']).map_or("", |at| &name[..=at]);
        *name = id(prefix, key);
    }
    for time in ["created", "created_at", "completed_at"] {
        if let Some(value) = fields.get_mut(time).filter(|value| value.is_number()) {
            *value = json!(0);
        }
    }
    if let Some(Value::Object(usage)) = fields.get_mut("usage") {
        settle_usage(usage);
    }
}

fn settle_usage(usage: &mut Map<String, Value>) {
    for details in ["prompt_tokens_details", "input_tokens_details"] {
        let Some(Value::Object(fields)) = usage.get_mut(details) else { continue };
        fields.shift_remove("cached_tokens");
        if fields.is_empty() {
            usage.shift_remove(details);
        }
    }
    // The price of an answer depends on what the cache held; the manifest has the sum.
    for name in ["cache_read_input_tokens", "cache_creation_input_tokens", "cost"] {
        usage.shift_remove(name);
    }
}

/// The text that a model wrote; nothing if there is none, as beside calls of tools.
pub(crate) fn text(body: &Value) -> Option<String> {
    let choice = &body["choices"][0];
    let plain = [&choice["message"]["content"], &choice["text"], &body["output_text"]];
    plain.into_iter().find_map(Value::as_str).map(str::to_owned).or_else(|| parts(body))
}

/// The texts of the parts that answers of Responses and Messages have.
fn parts(body: &Value) -> Option<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut contents = list(&body["content"]);
    contents.extend(list(&body["output"]).iter().flat_map(|item| list(&item["content"])));
    let texts: Vec<&str> = contents.iter().filter_map(|part| part["text"].as_str()).collect();
    if texts.is_empty() { None } else { Some(texts.concat()) }
}

/// Why a model stopped.
pub(crate) fn finish_reason(body: &Value) -> Value {
    let places = [&body["choices"][0]["finish_reason"], &body["stop_reason"], &body["status"]];
    places.into_iter().find(|value| value.is_string()).cloned().unwrap_or_default()
}

/// The result of an endpoint that writes no text: the one item of `data`, or all of them.
pub(crate) fn result(body: &Value) -> Value {
    match body["data"].as_array().map(Vec::as_slice) {
        Some([item]) => item.get("embedding").unwrap_or(item).clone(),
        Some(_) => body["data"].clone(),
        None => body.get("results").unwrap_or(body).clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_of_a_request_have_the_same_body() {
        let of = |id: &str, created: u64, cached: u64| {
            let details = json!({"cached_tokens": cached});
            let usage = json!({"prompt_tokens": 9, "prompt_tokens_details": details});
            let mut body = json!({"id": id, "created": created, "model": "m", "usage": usage});
            settle(&mut body, &[7; 32]);
            body
        };
        assert_eq!(of("chatcmpl-a", 1, 0), of("chatcmpl-b", 2, 8));
        let wanted = json!({"id": "chatcmpl-070707070707070707070707", "created": 0, "model": "m", "usage": {"prompt_tokens": 9}});
        assert_eq!(of("chatcmpl-a", 1, 0), wanted);
    }

    #[test]
    fn texts_are_found_in_each_form() {
        let chat = json!({"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]});
        let completion = json!({"choices": [{"text": "a", "finish_reason": "stop"}]});
        let response =
            json!({"status": "completed", "output": [{"content": [{"type": "output_text", "text": "a"}]}]});
        let message = json!({"content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn"});
        for body in [&chat, &completion, &response, &message] {
            assert_eq!(text(body).as_deref(), Some("a"));
            assert!(finish_reason(body).is_string());
        }
        assert_eq!(text(&json!({"choices": [{"message": {"content": null, "tool_calls": []}}]})), None);
    }

    #[test]
    fn results_are_the_items() {
        assert_eq!(result(&json!({"data": [{"embedding": [1, 2]}]})), json!([1, 2]));
        assert_eq!(result(&json!({"data": [{"label": "x"}]})), json!({"label": "x"}));
        assert_eq!(result(&json!({"results": [{"index": 0}]})), json!([{"index": 0}]));
    }
}
