//! Describes tools in plain messages, for models whose chat template does not support tools.
//!
//! The text is that of Nous Hermes 2 Pro, which Qwen's templates use too. Calls and results become messages of roles
//! that every template supports.

use serde_json::{Map, Value, json};

const BEFORE: &str = "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided \
    with function signatures within <tools></tools> XML tags:\n<tools>";
const AFTER: &str = "\n</tools>\n\nFor each function call, return a json object with function name and arguments within \
    <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": \
    <args-json-object>}\n</tool_call>";

/// The conversation with the tools described in its system message; the model answers in
/// [`ToolCallStyle::Hermes`](super::ToolCallStyle).
pub(crate) fn tools_in_system_message(messages: &[Value], tools: &[Value]) -> Vec<Value> {
    let mut words = BEFORE.to_owned();
    for tool in tools {
        words.push('\n');
        words.push_str(&tool.to_string());
    }
    words.push_str(AFTER);
    let mut out: Vec<Value> = Vec::with_capacity(messages.len() + 1);
    let mut rest = messages;
    match messages.split_first() {
        Some((first, others)) if matches!(role(first), "system" | "developer") => {
            out.push(json!({"role": role(first), "content": format!("{}\n\n{words}", text(first))}));
            rest = others;
        }
        _ => out.push(json!({"role": "system", "content": words})),
    }
    spell(rest, &mut out);
    out
}

/// The conversation with calls and results as text, for a template without tool support when no tools are offered.
pub(crate) fn calls_as_text(messages: &[Value]) -> Vec<Value> {
    let mut out = Vec::with_capacity(messages.len());
    spell(messages, &mut out);
    out
}

fn role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

fn text(message: &Value) -> String {
    message.get("content").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn spell(messages: &[Value], out: &mut Vec<Value>) {
    let mut after_result = false;
    for message in messages {
        let is_result = role(message) == "tool";
        match out.last_mut().filter(|_| is_result && after_result) {
            // Many templates require alternating roles, so consecutive results become one message.
            Some(last) => last["content"] = format!("{}\n{}", text(last), response(&text(message))).into(),
            None if is_result => out.push(json!({"role": "user", "content": response(&text(message))})),
            None => out.push(spelt(message, &text(message))),
        }
        after_result = is_result;
    }
}

fn response(text: &str) -> String {
    format!("<tool_response>\n{text}\n</tool_response>")
}

/// An assistant message with its calls written into the text; other messages are unchanged.
fn spelt(message: &Value, text: &str) -> Value {
    let Some(calls) = message.get("tool_calls").and_then(Value::as_array) else { return message.clone() };
    let mut content = text.to_owned();
    for function in calls.iter().filter_map(|call| call.get("function")) {
        if !content.is_empty() {
            content.push('\n');
        }
        let call = json!({"name": function.get("name"), "arguments": function.get("arguments")});
        content.push_str(&format!("<tool_call>\n{call}\n</tool_call>"));
    }
    let mut said: Map<String, Value> = message.as_object().cloned().unwrap_or_default();
    said.remove("tool_calls");
    said.insert("content".into(), content.into());
    said.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_results_become_text() {
        let tools = [json!({"type": "function", "function": {"name": "f"}})];
        let call =
            |name: &str| json!({"type": "function", "function": {"name": name, "arguments": {"a": 1}}});
        let messages = [
            json!({"role": "user", "content": "hi"}),
            json!({"role": "assistant", "content": "", "tool_calls": [call("f"), call("g")]}),
            json!({"role": "tool", "content": "1"}),
            json!({"role": "tool", "content": "2"}),
            json!({"role": "assistant", "content": "done"}),
        ];
        let out = tools_in_system_message(&messages, &tools);
        assert_eq!(out.len(), 5);
        assert!(out[0]["content"].as_str().is_some_and(|text| text.contains("\"name\":\"f\"")));
        assert_eq!(
            out[2]["content"],
            "<tool_call>\n{\"name\":\"f\",\"arguments\":{\"a\":1}}\n</tool_call>\n<tool_call>\n{\"name\":\"g\",\"arguments\":{\"a\":1}}\n</tool_call>"
        );
        assert_eq!(
            out[3]["content"],
            "<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>"
        );
        assert_eq!(out[4], messages[4]);
        let system = [json!({"role": "system", "content": "Be brief."}), messages[0].clone()];
        let out = tools_in_system_message(&system, &tools);
        assert!(
            out.len() == 2
                && out[0]["content"].as_str().is_some_and(|t| t.starts_with("Be brief.\n\n# Tools"))
        );
    }
}
