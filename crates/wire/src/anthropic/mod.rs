//! `POST /v1/messages` and `/v1/messages/count_tokens`: Anthropic's Messages API, translated to chat completions.
//!
//! A request becomes the equivalent chat request, so that both APIs share validation, limits and execution. Formats are
//! those of the public reference, API version 2023-06-01, and of the betas that agents send by default.

mod answer;
mod tools;
mod turns;

pub use answer::{Block, Message, Usage, fault_json, stop_reason};

use serde_json::{Map, Value, json};

use crate::error::Fault;
use crate::fields::{Fields, said};
use crate::request_fields::{self, Route};
use crate::warnings::Warnings;
use crate::{ChatRequest, limits};

/// Fields copied unchanged to the chat request, in addition to the sampling fields of all generating endpoints.
const SAME: [&str; 7] =
    ["model", "stream", "priority", "timeout", "include_cost", "cache_salt", "chat_template_kwargs"];

/// Translates a body to the equivalent chat request. `counted` leaves out the fields that only generation needs.
///
/// # Errors
/// An invalid or unsupported field, with its name in this API.
pub fn read(body: &Value, counted: bool) -> Result<ChatRequest, Fault> {
    let (chat, warnings) = to_chat(body, counted)?;
    let mut request = ChatRequest::read(&chat).map_err(|fault| fault.renamed("stop", "stop_sequences"))?;
    request.warnings.splice(0..0, warnings);
    Ok(request)
}

/// The body of the chat request, and warnings about ignored fields.
fn to_chat(body: &Value, counted: bool) -> Result<(Value, Vec<String>), Fault> {
    let fields = Fields::body(body)?;
    let mut warnings = Warnings::default();
    let route = if counted { Route::CountTokens } else { Route::Messages };
    request_fields::check(&fields, route)?.into_iter().for_each(|warning| warnings.add(warning));
    let mut chat = Map::new();
    // Counting tokens needs no sampling parameters.
    let shared = request_fields::shared().filter(|_| !counted);
    for name in SAME.into_iter().chain(shared) {
        if let Some(value) = fields.get(name) {
            chat.insert(name.into(), value.clone());
        }
    }
    match fields.count("max_tokens", 1..=limits::TOKENS)? {
        Some(most) => _ = chat.insert("max_tokens".into(), most.into()),
        None if counted => {}
        None => return Err(Fault::missing("max_tokens")),
    }
    if let Some(stops) = fields.get("stop_sequences") {
        chat.insert("stop".into(), stops.clone());
    }
    let messages = turns::messages(&fields, &mut warnings)?;
    // A last turn of the assistant is the start of the answer.
    let begun = messages.last().is_some_and(|last: &Value| {
        let text = last["content"].as_str().is_some_and(|text| !text.trim().is_empty());
        last["role"] == "assistant" && text && last.get("tool_calls").is_none()
    });
    if begun {
        chat.insert("continue_final_message".into(), true.into());
    }
    chat.insert("messages".into(), messages.into());
    tools::add(&fields, &mut chat, &mut warnings)?;
    add_thinking(&fields, &mut chat)?;
    add_output(&fields, &mut chat)?;
    leave_out(&fields, &mut warnings)?;
    if fields.boolean("stream")?.unwrap_or(false) {
        chat.insert("stream_options".into(), json!({"include_usage": true}));
    }
    Ok((Value::Object(chat), warnings.into_vec()))
}

fn add_thinking(fields: &Fields<'_>, chat: &mut Map<String, Value>) -> Result<(), Fault> {
    let Some(thinking) = fields.get("thinking") else { return Ok(()) };
    let thinking = Fields::at(thinking, "thinking".into())?;
    let on = match thinking.text("type", limits::NAME_BYTES)? {
        Some("enabled" | "adaptive") => true,
        Some("disabled") => false,
        None => return Err(Fault::missing("thinking.type")),
        Some(other) => {
            let shown = said(Some(other));
            let message =
                format!("thinking.type is {shown}; it must be \"enabled\", \"adaptive\" or \"disabled\"");
            return Err(Fault::field("thinking.type", message));
        }
    };
    let arguments = chat.entry("chat_template_kwargs").or_insert_with(|| json!({}));
    if let Some(arguments) = arguments.as_object_mut() {
        arguments.entry("enable_thinking").or_insert(on.into());
    }
    if let Some(budget) = thinking.count("budget_tokens", 0..=limits::TOKENS)? {
        chat.insert("thinking_token_budget".into(), budget.into());
    }
    if thinking.text("display", limits::NAME_BYTES)? == Some("omitted") {
        chat.insert("include_reasoning".into(), false.into());
    }
    Ok(())
}

/// Reads `output_config` (`effort`, `format`) and `output_format`, the format's name in its beta.
fn add_output(fields: &Fields<'_>, chat: &mut Map<String, Value>) -> Result<(), Fault> {
    let mut format = fields.get("output_format").map(|format| (format, "output_format"));
    if let Some(config) = fields.get("output_config") {
        let config = Fields::at(config, "output_config".into())?;
        if let Some(effort) = config.text("effort", limits::NAME_BYTES)? {
            chat.insert("reasoning_effort".into(), effort.into());
        }
        format = config.get("format").map(|format| (format, "output_config.format")).or(format);
    }
    let Some((format, at)) = format else { return Ok(()) };
    let format = Fields::at(format, at.into())?;
    match format.text("type", limits::NAME_BYTES)? {
        Some("json_schema") => {
            let schema = format.get("schema").ok_or_else(|| Fault::missing(format.param("schema")))?;
            let schema = json!({"name": "output", "schema": schema, "strict": true});
            chat.insert("response_format".into(), json!({"type": "json_schema", "json_schema": schema}));
            Ok(())
        }
        Some("text") => Ok(()),
        None => Err(Fault::missing(format.param("type"))),
        Some(other) => {
            let at = format.param("type");
            let shown = said(Some(other));
            Err(Fault::field(at.clone(), format!("{at} is {shown}; it must be \"json_schema\"")))
        }
    }
}

/// Warns about ignored features of other servers that do not change the prompt.
fn leave_out(fields: &Fields<'_>, warnings: &mut Warnings) -> Result<(), Fault> {
    if let Some(context) = fields.get("context_management") {
        let context = Fields::at(context, "context_management".into())?;
        for edit in context.list("edits", limits::PARTS)?.unwrap_or_default() {
            let kind = edit.get("type").and_then(Value::as_str).unwrap_or_default();
            // Keeping all reasoning is what this server does anyway.
            if !(kind.starts_with("clear_thinking") && edit["keep"] == "all") {
                let shown = said(Some(kind));
                warnings.add(format!(
                    "context_management is left out ({shown}): a conversation is never cut here"
                ));
            }
        }
    }
    if fields.list("mcp_servers", limits::TOOLS)?.is_some_and(|servers| !servers.is_empty()) {
        warnings.add("mcp_servers is left out: this server calls no other servers".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(body: Value) -> Value {
        to_chat(&body, false).unwrap().0
    }

    #[test]
    fn a_conversation_with_tools_says_the_same() {
        let chat = chat(json!({
            "model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "Be brief."}],
            "stop_sequences": ["END"],
            "tools": [{"name": "look", "description": "d", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "messages": [
                {"role": "user", "content": "Where is it?"},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "x"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": 1}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "there"}]},
                    {"type": "text", "text": "And now?"}]},
            ],
        }));
        assert_eq!(
            chat["messages"],
            json!([
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Where is it?"},
                {"role": "assistant", "content": "I look.", "reasoning_content": "hm", "tool_calls": [
                    {"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{\"at\":1}"}}]},
                {"role": "tool", "tool_call_id": "t1", "content": "there"},
                {"role": "user", "content": "And now?"},
            ])
        );
        assert_eq!(chat["tools"][0]["function"]["parameters"], json!({"type": "object"}));
        assert_eq!((&chat["tool_choice"], &chat["parallel_tool_calls"]), (&json!("required"), &json!(false)));
        assert_eq!((&chat["stop"], &chat["max_tokens"]), (&json!(["END"]), &json!(9)));
        assert_eq!(chat["chat_template_kwargs"], json!({"enable_thinking": true}));
        assert_eq!(chat["thinking_token_budget"], 1024);
    }

    #[test]
    fn what_cannot_be_said_is_named() {
        let of = |body: Value| to_chat(&body, false).unwrap_err().param.unwrap();
        let user =
            |content: Value| json!({"max_tokens": 1, "messages": [{"role": "user", "content": content}]});
        assert_eq!(of(json!({"messages": []})), "max_tokens");
        assert_eq!(of(json!({"max_tokens": 1})), "messages");
        assert_eq!(of(user(json!([{"type": "image", "source": {}}]))), "messages[0].content[0].type");
        assert_eq!(of(user(json!([{"type": "text"}]))), "messages[0].content[0].text");
        assert_eq!(of(user(json!(7))), "messages[0].content");
        let robot = json!({"max_tokens": 1, "messages": [{"role": "robot", "content": "x"}]});
        assert_eq!(of(robot), "messages[0].role");
        let tool = json!({"max_tokens": 1, "messages": [], "tools": [{"name": "look"}]});
        assert_eq!(of(tool), "tools[0].input_schema");
        assert!(to_chat(&json!({"messages": [{"role": "user", "content": "x"}]}), true).is_ok());
    }

    #[test]
    fn blocks_and_errors_have_their_shapes() {
        let block = Block::ToolUse { id: "t".into(), name: "f".into(), input: json!({}) };
        let json = json!({"type": "tool_use", "id": "t", "name": "f", "input": {}});
        assert_eq!(serde_json::to_value(block).unwrap(), json);
        let error = fault_json(&Fault::busy("full", 3));
        assert_eq!(error, json!({"type": "error", "error": {"type": "rate_limit_error", "message": "full"}}));
    }
}
