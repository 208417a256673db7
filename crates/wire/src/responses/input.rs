//! Translation of input items to chat messages.

use serde_json::{Value, json};

use super::tools::{Tools, shell_arguments};
use crate::error::Fault;
use crate::fields::{Fields, said, wrong};
use crate::limits;
use crate::warnings::Warnings;

/// Translates `input`.
pub(super) fn messages(
    fields: &Fields<'_>,
    tools: &Tools,
    warnings: &mut Warnings,
) -> Result<Vec<Value>, Fault> {
    match fields.get("input") {
        None => Err(Fault::missing("input")),
        Some(Value::String(text)) => Ok(vec![json!({"role": "user", "content": text})]),
        Some(Value::Array(items)) if items.len() <= limits::MESSAGES => {
            let mut messages = Vec::with_capacity(items.len());
            for (i, item) in items.iter().enumerate() {
                add_item(&Fields::at(item, format!("input[{i}]"))?, tools, &mut messages, warnings)?;
            }
            Ok(messages)
        }
        Some(Value::Array(items)) => {
            let message =
                format!("input has {} items; at most {} are allowed", items.len(), limits::MESSAGES);
            Err(Fault::field("input", message))
        }
        Some(other) => Err(wrong("input", other, "a string or a list of items")),
    }
}

fn add_item(
    item: &Fields<'_>,
    tools: &Tools,
    messages: &mut Vec<Value>,
    warnings: &mut Warnings,
) -> Result<(), Fault> {
    let needed =
        |name: &str, most: usize| item.text(name, most)?.ok_or_else(|| Fault::missing(item.param(name)));
    let function = || -> Result<String, Fault> {
        let name = needed("name", limits::NAME_BYTES)?;
        Ok(tools.function(item.text("namespace", limits::NAME_BYTES)?, name))
    };
    match item.text("type", limits::NAME_BYTES)?.unwrap_or("message") {
        "message" => {
            let role = needed("role", limits::NAME_BYTES)?;
            messages.push(json!({"role": role, "content": content(item, "content", None)?}));
        }
        "function_call" => {
            let arguments = needed("arguments", usize::MAX)?;
            add_call(messages, needed("call_id", limits::NAME_BYTES)?, &function()?, arguments);
        }
        "custom_tool_call" => {
            let arguments = json!({"input": needed("input", usize::MAX)?}).to_string();
            add_call(messages, needed("call_id", limits::NAME_BYTES)?, &function()?, &arguments);
        }
        "local_shell_call" => {
            let action = item.get("action").ok_or_else(|| Fault::missing(item.param("action")))?;
            let id = item.text("call_id", limits::NAME_BYTES)?.or(item.text("id", limits::NAME_BYTES)?);
            let id = id.ok_or_else(|| Fault::missing(item.param("call_id")))?;
            add_call(messages, id, &tools.function(None, "local_shell"), &shell_arguments(action));
        }
        "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
            let id = item.text("call_id", limits::NAME_BYTES)?.or(item.text("id", limits::NAME_BYTES)?);
            let id = id.ok_or_else(|| Fault::missing(item.param("call_id")))?;
            let found = content(item, "output", Some(warnings))?;
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": found}));
        }
        "reasoning" => {
            let thought =
                if item.get("content").is_some() { content(item, "content", None)? } else { String::new() };
            if !thought.is_empty() {
                messages.push(json!({"role": "assistant", "content": "", "reasoning_content": thought}));
            }
        }
        // Calls of tools that another server ran; the assistant's message after them has the outcome.
        kind @ ("web_search_call"
        | "file_search_call"
        | "code_interpreter_call"
        | "image_generation_call"
        | "mcp_list_tools"
        | "mcp_call"
        | "mcp_approval_request"
        | "mcp_approval_response"
        | "tool_search_call"
        | "tool_search_output") => {
            let shown = said(Some(kind));
            warnings.add(format!("items of type {shown} are left out: another server ran these tools"));
        }
        kind => {
            let at = item.param("type");
            let shown = said(Some(kind));
            let message = format!(
                "{at} is {shown}; this server reads messages, reasoning, and calls of functions and custom tools"
            );
            return Err(Fault::unsupported(at, message));
        }
    }
    Ok(())
}

/// Adds a call to the last message if it is the assistant's, else to a new assistant message.
fn add_call(messages: &mut Vec<Value>, id: &str, name: &str, arguments: &str) {
    let call = json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    if messages.last().is_none_or(|last| last["role"] != "assistant") {
        messages.push(json!({"role": "assistant", "content": ""}));
    }
    match messages.last_mut().map(|last| &mut last["tool_calls"]) {
        Some(Value::Array(calls)) => calls.push(call),
        Some(none) => *none = json!([call]),
        None => {}
    }
}

/// The text of a field, given as a string or in parts. Parts that are not text are an error, but with `warnings` (tool
/// results) are replaced by a note: they stay in the agent's conversation, which could not continue otherwise.
fn content(item: &Fields<'_>, name: &str, mut warnings: Option<&mut Warnings>) -> Result<String, Fault> {
    let at = item.param(name);
    match item.get(name) {
        None => Err(Fault::missing(at)),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) if parts.len() <= limits::PARTS => {
            let mut texts = String::new();
            for (i, part) in parts.iter().enumerate() {
                let part = Fields::at(part, format!("{at}[{i}]"))?;
                texts.push_str(&part_text(&part, warnings.as_deref_mut())?);
            }
            Ok(texts)
        }
        Some(Value::Array(parts)) => {
            let message = format!("{at} has {} parts; at most {} are allowed", parts.len(), limits::PARTS);
            Err(Fault::field(at, message))
        }
        Some(other) => Err(wrong(&at, other, "a string or a list of parts")),
    }
}

fn part_text(part: &Fields<'_>, warnings: Option<&mut Warnings>) -> Result<String, Fault> {
    let at = part.param("type");
    let kind = part.text("type", limits::NAME_BYTES)?.ok_or_else(|| Fault::missing(at.clone()))?;
    let field = match (kind, warnings) {
        ("input_text" | "output_text" | "text" | "reasoning_text" | "summary_text", _) => "text",
        ("refusal", _) => "refusal",
        (kind, Some(warnings)) => {
            let shown = said(Some(kind));
            warnings.add(format!(
                "parts of type {shown} in results of tools are left out: this server reads text only"
            ));
            return Ok(format!("[{kind} left out: this model reads text only]"));
        }
        (kind, None) => {
            let message = format!("{at} is {}; this server reads text only", said(Some(kind)));
            return Err(Fault::unsupported(at, message));
        }
    };
    let text = part.text(field, usize::MAX)?;
    text.map(str::to_owned).ok_or_else(|| Fault::missing(part.param(field)))
}
