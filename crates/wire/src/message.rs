//! Validation of a conversation's messages, and conversion to the form that chat templates expect.
//!
//! Templates are written for Hugging Face's `apply_chat_template`: `content` is a string, and a tool call's `arguments`
//! is an object instead of the API's JSON text.

use serde_json::{Map, Value};

use crate::error::Fault;
use crate::fields::{self, Fields};
use crate::limits;

const ROLES: &[&str] = &["system", "developer", "user", "assistant", "tool", "function"];

/// Reads `messages`.
pub(crate) fn read_all(body: &Fields<'_>) -> Result<Vec<Value>, Fault> {
    let list = body.list("messages", limits::MESSAGES)?.ok_or_else(|| Fault::missing("messages"))?;
    if list.is_empty() {
        return Err(Fault::field("messages", "messages is empty; it must have at least 1 message"));
    }
    list.iter().enumerate().map(|(i, message)| read(message, format!("messages[{i}]"))).collect()
}

fn read(message: &Value, path: String) -> Result<Value, Fault> {
    let message = Fields::at(message, path)?;
    let role =
        message.text("role", limits::NAME_BYTES)?.ok_or_else(|| Fault::missing(message.param("role")))?;
    if !ROLES.contains(&role) {
        let param = message.param("role");
        let text = format!(
            "{param} is {}; it must be one of {}",
            fields::show(&Value::from(role)),
            ROLES.join(", ")
        );
        return Err(Fault::field(param, text));
    }
    let mut out = Map::new();
    out.insert("role".into(), role.into());
    let calls = tool_calls(&message)?;
    let text = match content(&message)? {
        Some(text) => text,
        // An assistant message with tool calls may have no text; every template accepts an empty string.
        None if role == "assistant" => String::new(),
        None => return Err(Fault::missing(message.param("content"))),
    };
    out.insert("content".into(), text.into());
    for name in ["name", "tool_call_id"] {
        if let Some(text) = message.text(name, limits::NAME_BYTES)? {
            out.insert(name.into(), text.into());
        }
    }
    if let Some(text) = message.text("reasoning_content", usize::MAX)? {
        out.insert("reasoning_content".into(), text.into());
    }
    if let Some(calls) = calls {
        out.insert("tool_calls".into(), calls.into());
    }
    Ok(Value::Object(out))
}

/// The content: a string, or text parts joined by newlines, as in vLLM and llama.cpp.
fn content(message: &Fields<'_>) -> Result<Option<String>, Fault> {
    let param = message.param("content");
    let parts = match message.get("content") {
        None => return Ok(None),
        Some(Value::String(text)) => return Ok(Some(text.clone())),
        Some(value @ Value::Array(_)) => fields::list(&param, value, limits::PARTS)?,
        Some(other) => return Err(fields::wrong(&param, other, "a string or an array of text parts")),
    };
    let mut texts = Vec::with_capacity(parts.len());
    for (i, part) in parts.iter().enumerate() {
        let part = Fields::at(part, format!("{param}[{i}]"))?;
        let kind =
            part.text("type", limits::NAME_BYTES)?.ok_or_else(|| Fault::missing(part.param("type")))?;
        let field = match kind {
            "text" => "text",
            "refusal" => "refusal",
            other => {
                let shown = fields::show(&Value::from(other));
                let at = part.param("type");
                let text = format!("{at} is {shown}; this model reads text only");
                return Err(Fault::unsupported(at, text));
            }
        };
        let text = part.text(field, usize::MAX)?.ok_or_else(|| Fault::missing(part.param(field)))?;
        texts.push(text);
    }
    Ok(Some(texts.join("\n")))
}

fn tool_calls(message: &Fields<'_>) -> Result<Option<Vec<Value>>, Fault> {
    let Some(list) = message.list("tool_calls", limits::TOOL_CALLS)? else { return Ok(None) };
    let path = message.param("tool_calls");
    let call = |(i, call): (usize, &Value)| tool_call(call, format!("{path}[{i}]"));
    let calls: Vec<Value> = list.iter().enumerate().map(call).collect::<Result<_, _>>()?;
    Ok(Some(calls).filter(|calls| !calls.is_empty()))
}

fn tool_call(call: &Value, path: String) -> Result<Value, Fault> {
    let call = Fields::at(call, path)?;
    let at = call.param("function");
    let function = Fields::at(call.get("function").ok_or_else(|| Fault::missing(at.clone()))?, at)?;
    let name =
        function.text("name", limits::NAME_BYTES)?.ok_or_else(|| Fault::missing(function.param("name")))?;
    let at = function.param("arguments");
    let arguments = match function.get("arguments") {
        None => Value::Object(Map::new()),
        Some(Value::String(text)) if text.trim().is_empty() => Value::Object(Map::new()),
        Some(Value::String(text)) => {
            let parsed: Value = serde_json::from_str(text)
                .map_err(|e| Fault::field(at.clone(), format!("{at} is not valid JSON: {e}")))?;
            if !parsed.is_object() {
                return Err(fields::wrong(&at, &parsed, "the JSON text of an object"));
            }
            parsed
        }
        Some(object @ Value::Object(_)) => object.clone(),
        Some(other) => return Err(fields::wrong(&at, other, "the JSON text of an object")),
    };
    let mut out = Map::new();
    if let Some(id) = call.text("id", limits::NAME_BYTES)? {
        out.insert("id".into(), id.into());
    }
    out.insert("type".into(), "function".into());
    let mut inner = Map::new();
    inner.insert("name".into(), name.into());
    inner.insert("arguments".into(), arguments);
    out.insert("function".into(), inner.into());
    Ok(Value::Object(out))
}

/// Reads `tools`, for the chat template. None for an empty list.
pub(crate) fn tools(body: &Fields<'_>) -> Result<Option<Vec<Value>>, Fault> {
    let list = body.list("tools", limits::TOOLS)?.unwrap_or_default();
    for (i, tool) in list.iter().enumerate() {
        let tool = Fields::at(tool, format!("tools[{i}]"))?;
        let kind =
            tool.text("type", limits::NAME_BYTES)?.ok_or_else(|| Fault::missing(tool.param("type")))?;
        if kind != "function" {
            let at = tool.param("type");
            let text =
                format!("{at} is {}; only \"function\" is known here", fields::show(&Value::from(kind)));
            return Err(Fault::unsupported(at, text));
        }
        let at = tool.param("function");
        let function = Fields::at(tool.get("function").ok_or_else(|| Fault::missing(at.clone()))?, at)?;
        let at = function.param("name");
        if function.text("name", limits::NAME_BYTES)?.ok_or_else(|| Fault::missing(at.clone()))?.is_empty() {
            return Err(Fault::field(
                at.clone(),
                format!("{at} is empty; a tool must have a name to be called by"),
            ));
        }
        function.object("parameters", usize::MAX)?;
    }
    Ok(Some(list.to_vec()).filter(|l| !l.is_empty()))
}

/// Whether the model may, must or must not call tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model must not call tools.
    None,
    /// The model may call tools.
    #[default]
    Auto,
    /// The model must call at least one tool.
    Required,
    /// The model must call the tool of this name.
    Named(String),
}

/// Reads `tool_choice` and checks it against `tools`.
pub(crate) fn choice(body: &Fields<'_>, tools: Option<&[Value]>) -> Result<ToolChoice, Fault> {
    let name = "tool_choice";
    let choice = match body.get(name) {
        None => return Ok(ToolChoice::Auto),
        Some(Value::String(s)) if s == "none" => return Ok(ToolChoice::None),
        Some(Value::String(s)) if s == "auto" => return Ok(ToolChoice::Auto),
        Some(Value::String(s)) if s == "required" || s == "any" => ToolChoice::Required,
        Some(value @ Value::Object(_)) => {
            let given = Fields::at(value, name.into())?;
            let at = given.param("function");
            let function = Fields::at(given.get("function").ok_or_else(|| Fault::missing(at.clone()))?, at)?;
            let called = function.text("name", limits::NAME_BYTES)?;
            ToolChoice::Named(called.ok_or_else(|| Fault::missing(function.param("name")))?.to_owned())
        }
        Some(value @ Value::String(_)) => {
            let shown = fields::show(value);
            let text =
                format!("{name} is {shown}; it must be none, auto, required or an object that names a tool");
            return Err(Fault::field(name, text));
        }
        Some(other) => return Err(fields::wrong(name, other, "a string or an object")),
    };
    let Some(tools) = tools else {
        return Err(Fault::field(name, "tool_choice asks for a call, and there are no tools"));
    };
    match &choice {
        ToolChoice::Named(wanted) if !tool_names(tools).any(|name| name == wanted) => {
            let names: Vec<&str> = tool_names(tools).collect();
            let shown = fields::show(&Value::from(wanted.as_str()));
            let text = format!("tool_choice names {shown}; the tools are {}", names.join(", "));
            Err(Fault::field("tool_choice.function.name", text))
        }
        _ => Ok(choice),
    }
}

/// The names of validated tools.
pub fn tool_names(tools: &[Value]) -> impl Iterator<Item = &str> {
    tools.iter().filter_map(|tool| tool.get("function")?.get("name")?.as_str())
}
