//! `POST /v1/messages` and `/v1/messages/count_tokens`: Anthropic's Messages API, told as a chat completion.
//!
//! A request becomes the chat request that says the same, so that both are checked, bounded and answered alike. Formats
//! are those of the public reference, API version 2023-06-01.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::error::Fault;
use crate::fields::{Fields, said, wrong};
use crate::limits;

/// Fields that mean the same in both APIs.
const SAME: [&str; 13] = [
    "model",
    "stream",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "seed",
    "priority",
    "timeout",
    "include_cost",
    "cache_salt",
    "chat_template_kwargs",
    "ignore_eos",
];

/// The chat request that asks for the same. `counted` leaves out what only an answer needs.
///
/// # Errors
/// When a part of it has no meaning here, by its name in this API.
pub fn to_chat(body: &Value, counted: bool) -> Result<Value, Fault> {
    let fields = Fields::body(body)?;
    let mut chat = Map::new();
    for name in SAME {
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
    let mut messages = system(&fields)?;
    let turns = fields.list("messages", limits::MESSAGES)?.ok_or_else(|| Fault::missing("messages"))?;
    for (at, turn) in turns.iter().enumerate() {
        add_turn(&Fields::at(turn, format!("messages[{at}]"))?, &mut messages)?;
    }
    // A last turn of the assistant's is the beginning of the answer.
    let begun = messages.last().is_some_and(|last: &Value| {
        let text = last["content"].as_str().is_some_and(|text| !text.trim().is_empty());
        last["role"] == "assistant" && text && last.get("tool_calls").is_none()
    });
    if begun {
        chat.insert("continue_final_message".into(), true.into());
    }
    chat.insert("messages".into(), messages.into());
    add_tools(&fields, &mut chat)?;
    add_thinking(&fields, &mut chat)?;
    if fields.boolean("stream")?.unwrap_or(false) {
        chat.insert("stream_options".into(), json!({"include_usage": true}));
    }
    Ok(Value::Object(chat))
}

fn system(fields: &Fields<'_>) -> Result<Vec<Value>, Fault> {
    let Some(system) = fields.get("system") else { return Ok(Vec::new()) };
    let text = match system {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Result<Vec<&str>, Fault> =
                blocks.iter().enumerate().map(|(i, b)| text_of(b, format!("system[{i}]"))).collect();
            texts?.join("\n")
        }
        other => return Err(wrong("system", other, "a string or a list of text blocks")),
    };
    Ok(if text.is_empty() { Vec::new() } else { vec![json!({"role": "system", "content": text})] })
}

/// The text of a block that can only be text.
fn text_of(block: &Value, at: String) -> Result<&str, Fault> {
    let fields = Fields::at(block, at)?;
    match fields.text("type", limits::NAME_BYTES)? {
        Some("text") => fields.text("text", usize::MAX)?.ok_or_else(|| Fault::missing(fields.param("text"))),
        kind => {
            let message = format!("{} is {}; this server reads text only", fields.param("type"), said(kind));
            Err(Fault::unsupported(fields.param("type"), message))
        }
    }
}

/// One turn is one message, but for results of tools, which are a message each.
fn add_turn(turn: &Fields<'_>, messages: &mut Vec<Value>) -> Result<(), Fault> {
    let role = turn.text("role", limits::NAME_BYTES)?.ok_or_else(|| Fault::missing(turn.param("role")))?;
    if role != "user" && role != "assistant" {
        let message =
            format!("{} is {}; it must be \"user\" or \"assistant\"", turn.param("role"), said(Some(role)));
        return Err(Fault::field(turn.param("role"), message));
    }
    let at = turn.param("content");
    let content = turn.get("content").ok_or_else(|| Fault::missing(at.clone()))?;
    let blocks = match content {
        Value::String(text) => {
            messages.push(json!({"role": role, "content": text}));
            return Ok(());
        }
        Value::Array(blocks) if blocks.len() <= limits::PARTS => blocks,
        Value::Array(blocks) => {
            let message = format!("{at} has {} blocks; at most {} are allowed", blocks.len(), limits::PARTS);
            return Err(Fault::field(at, message));
        }
        other => return Err(wrong(&at, other, "a string or a list of blocks")),
    };
    let mut said = Said::default();
    for (i, block) in blocks.iter().enumerate() {
        said.add(role, block, format!("{at}[{i}]"), messages)?;
    }
    said.push_as(role, messages);
    Ok(())
}

/// What the blocks of a turn say together.
#[derive(Default)]
struct Said {
    text: Option<String>,
    thought: String,
    calls: Vec<Value>,
}

impl Said {
    fn add(&mut self, role: &str, block: &Value, at: String, messages: &mut Vec<Value>) -> Result<(), Fault> {
        let fields = Fields::at(block, at.clone())?;
        let needed = |name: &str, most: usize| {
            fields.text(name, most)?.ok_or_else(|| Fault::missing(fields.param(name)))
        };
        match (role, needed("type", limits::NAME_BYTES)?) {
            (_, "text") => self.text.get_or_insert_default().push_str(needed("text", usize::MAX)?),
            ("assistant", "thinking") => self.thought.push_str(needed("thinking", usize::MAX)?),
            ("assistant", "redacted_thinking") => {}
            ("assistant", "tool_use") => {
                let input = fields.object("input", usize::MAX)?.cloned().unwrap_or_default();
                let arguments = Value::Object(input).to_string();
                self.calls.push(json!({
                    "id": needed("id", limits::NAME_BYTES)?,
                    "type": "function",
                    "function": {"name": needed("name", limits::NAME_BYTES)?, "arguments": arguments},
                }));
            }
            ("user", "tool_result") => {
                let content = result_text(&fields)?;
                let id = needed("tool_use_id", limits::NAME_BYTES)?;
                messages.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
            }
            (_, kind) => {
                let name = fields.param("type");
                let message = format!(
                    "{name} is {} in a turn of the {role}; this server reads text and tools",
                    said(Some(kind))
                );
                return Err(Fault::unsupported(name, message));
            }
        }
        Ok(())
    }

    fn push_as(self, role: &str, messages: &mut Vec<Value>) {
        if self.text.is_none() && self.calls.is_empty() && self.thought.is_empty() {
            return;
        }
        let mut message = json!({"role": role, "content": self.text.unwrap_or_default()});
        if !self.thought.is_empty() {
            message["reasoning_content"] = self.thought.into();
        }
        if !self.calls.is_empty() {
            message["tool_calls"] = self.calls.into();
        }
        messages.push(message);
    }
}

fn result_text(result: &Fields<'_>) -> Result<String, Fault> {
    let at = result.param("content");
    match result.get("content") {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(blocks)) => {
            let texts: Result<Vec<&str>, Fault> =
                blocks.iter().enumerate().map(|(i, b)| text_of(b, format!("{at}[{i}]"))).collect();
            Ok(texts?.join("\n"))
        }
        Some(other) => Err(wrong(&at, other, "a string or a list of text blocks")),
    }
}

fn add_tools(fields: &Fields<'_>, chat: &mut Map<String, Value>) -> Result<(), Fault> {
    if let Some(tools) = fields.list("tools", limits::TOOLS)? {
        let tool = |(i, tool): (usize, &Value)| {
            let tool = Fields::at(tool, format!("tools[{i}]"))?;
            let name = tool.text("name", limits::NAME_BYTES)?;
            let name = name.ok_or_else(|| Fault::missing(tool.param("name")))?;
            let schema = tool.object("input_schema", usize::MAX)?;
            let Some(schema) = schema else {
                let message = format!(
                    "{} has no input_schema: tools that a server runs itself are not built into this one",
                    tool.param("name")
                );
                return Err(Fault::unsupported(tool.param("input_schema"), message));
            };
            let description = tool.text("description", usize::MAX)?.unwrap_or_default();
            Ok(json!({
                "type": "function",
                "function": {"name": name, "description": description, "parameters": schema},
            }))
        };
        let tools: Result<Vec<Value>, Fault> = tools.iter().enumerate().map(tool).collect();
        chat.insert("tools".into(), tools?.into());
    }
    let Some(choice) = fields.get("tool_choice") else { return Ok(()) };
    let choice = Fields::at(choice, "tool_choice".into())?;
    let at = choice.param("type");
    let said = match choice.text("type", limits::NAME_BYTES)? {
        Some("auto") => json!("auto"),
        Some("none") => json!("none"),
        Some("any") => json!("required"),
        Some("tool") => {
            let name = choice.text("name", limits::NAME_BYTES)?;
            let name = name.ok_or_else(|| Fault::missing(choice.param("name")))?;
            json!({"type": "function", "function": {"name": name}})
        }
        Some(other) => {
            let message =
                format!("{at} is {}; it must be \"auto\", \"any\", \"tool\" or \"none\"", said(Some(other)));
            return Err(Fault::field(at, message));
        }
        None => return Err(Fault::missing(at)),
    };
    chat.insert("tool_choice".into(), said);
    if choice.boolean("disable_parallel_tool_use")?.unwrap_or(false) {
        chat.insert("parallel_tool_calls".into(), false.into());
    }
    Ok(())
}

fn add_thinking(fields: &Fields<'_>, chat: &mut Map<String, Value>) -> Result<(), Fault> {
    let Some(thinking) = fields.get("thinking") else { return Ok(()) };
    let thinking = Fields::at(thinking, "thinking".into())?;
    let on = match thinking.text("type", limits::NAME_BYTES)? {
        Some("enabled" | "adaptive") => true,
        Some("disabled") => false,
        other => {
            let message = format!("thinking.type is {}; it must be \"enabled\" or \"disabled\"", said(other));
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
    Ok(())
}

/// Why an answer ended, in this API's words. `sequence` is the stop string that was met, if one was.
pub fn stop_reason(finish_reason: &str, sequence: Option<&str>) -> &'static str {
    match finish_reason {
        "length" => "max_tokens",
        "tool_calls" => "tool_use",
        _ if sequence.is_some() => "stop_sequence",
        _ => "end_turn",
    }
}

/// Token counts. What was cached is not among the input tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Prompt tokens that were computed.
    pub input_tokens: usize,
    /// Prompt tokens whose keys and values were kept from before.
    pub cache_read_input_tokens: usize,
    /// Nothing is paid for keeping them.
    pub cache_creation_input_tokens: usize,
    /// Tokens generated.
    pub output_tokens: usize,
    /// What that cost, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<crate::Cost>,
}

impl Usage {
    /// From the counts of a chat completion.
    pub fn of(usage: &crate::Usage) -> Usage {
        let cached = usage.prompt_tokens_details.cached_tokens;
        Usage {
            input_tokens: usage.prompt_tokens - cached,
            cache_read_input_tokens: cached,
            cache_creation_input_tokens: 0,
            output_tokens: usage.completion_tokens,
            cost: usage.cost,
        }
    }
}

/// One block of an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// What is said.
    Text {
        /// It.
        text: String,
    },
    /// What was thought.
    Thinking {
        /// It.
        thinking: String,
        /// Always empty: nothing is signed here.
        signature: String,
    },
    /// A tool is called.
    ToolUse {
        /// By which the result refers to it.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments, an object.
        input: Value,
    },
}

/// A whole answer, or how one begins.
#[derive(Debug, Clone, Serialize)]
pub struct Message<'a> {
    /// `msg_…`
    pub id: &'a str,
    /// `message`
    pub r#type: &'static str,
    /// `assistant`
    pub role: &'static str,
    /// The model's name.
    pub model: &'a str,
    /// What it says, in order.
    pub content: Vec<Block>,
    /// Why it ended.
    pub stop_reason: Option<&'static str>,
    /// The stop string that was met.
    pub stop_sequence: Option<&'a str>,
    /// Token counts.
    pub usage: Usage,
}

/// An error in this API's shape.
pub fn fault_json(fault: &Fault) -> Value {
    let kind = match fault.status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": fault.message}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(body: Value) -> Value {
        to_chat(&body, false).unwrap()
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
        let system = json!({"max_tokens": 1, "messages": [{"role": "system", "content": "x"}]});
        assert_eq!(of(system), "messages[0].role");
        let tool =
            json!({"max_tokens": 1, "messages": [], "tools": [{"type": "bash_20250124", "name": "bash"}]});
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
