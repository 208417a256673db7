//! `POST /v1/responses`: OpenAI's Responses API, told as a chat completion.
//!
//! A request becomes the chat request that says the same, so that both are checked, bounded and answered alike.

use serde_json::{Map, Value, json};

use crate::error::Fault;
use crate::fields::{Fields, said, wrong};
use crate::{Usage, json, limits};

/// Fields that mean the same in both APIs.
const SAME: [&str; 17] = [
    "model",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "parallel_tool_calls",
    "service_tier",
    "priority",
    "timeout",
    "include_cost",
    "cache_salt",
    "chat_template_kwargs",
    "ignore_eos",
    "repetition_penalty",
];

/// A request, told as a chat request, and what only this API knows.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponsesRequest {
    /// The chat request, but for the messages of `previous`, which come after its system message.
    pub chat: Map<String, Value>,
    /// What the model is told first.
    pub instructions: Option<String>,
    /// What is new in the conversation.
    pub messages: Vec<Value>,
    /// The response that this one goes on from.
    pub previous: Option<String>,
    /// Whether the response can be asked for later.
    pub store: bool,
    /// Whether it is computed after the answer to this request.
    pub background: bool,
    /// Whether it is sent as events.
    pub stream: bool,
    /// Fields that the response repeats as they were given.
    pub repeated: Map<String, Value>,
}

impl ResponsesRequest {
    /// Reads a body. Never panics, whatever the bytes.
    ///
    /// # Errors
    /// When a part of it has no meaning here, by its name in this API.
    pub fn parse(body: &[u8]) -> Result<ResponsesRequest, Fault> {
        let value: Value = json::read(body)?;
        crate::numbers::refuse_in_schemas(body)?;
        let fields = Fields::body(&value)?;
        refuse(&fields)?;
        let mut chat = Map::new();
        for name in SAME {
            if let Some(value) = fields.get(name) {
                chat.insert(name.into(), value.clone());
            }
        }
        if let Some(most) = fields.count("max_output_tokens", 1..=limits::TOKENS)? {
            chat.insert("max_completion_tokens".into(), most.into());
        }
        add_reasoning(&fields, &mut chat)?;
        add_format(&fields, &mut chat)?;
        add_tools(&fields, &mut chat)?;
        let stream = fields.boolean("stream")?.unwrap_or(false);
        let background = fields.boolean("background")?.unwrap_or(false);
        let store = fields.boolean("store")?.unwrap_or(true);
        if background && (stream || !store) {
            let message = "background is true: the response is kept to be asked for, so store must be true and \
                           stream false";
            return Err(Fault::field("background", message));
        }
        Ok(ResponsesRequest {
            chat,
            instructions: fields.text("instructions", usize::MAX)?.map(str::to_owned),
            messages: input(&fields)?,
            previous: fields.text("previous_response_id", limits::NAME_BYTES)?.map(str::to_owned),
            store,
            background,
            stream,
            repeated: repeated(&fields)?,
        })
    }

    /// The whole chat request, with the conversation before between the instructions and what is new.
    pub fn chat(&self, before: &[Value]) -> Value {
        let mut chat = self.chat.clone();
        let system = self.instructions.iter().map(|text| json!({"role": "system", "content": text}));
        let messages: Vec<Value> =
            system.chain(before.iter().cloned()).chain(self.messages.clone()).collect();
        chat.insert("messages".into(), messages.into());
        Value::Object(chat)
    }
}

/// What another server would do, and this one would silently not.
fn refuse(fields: &Fields<'_>) -> Result<(), Fault> {
    for (name, why) in [
        ("conversation", "conversations are not kept here; use previous_response_id or input"),
        ("prompt", "prompt templates are not kept here; use instructions and input"),
        ("context_management", "a conversation is never cut here"),
    ] {
        if fields.get(name).is_some() {
            return Err(Fault::unsupported(name, format!("{name} is given: {why}")));
        }
    }
    match fields.text("truncation", limits::NAME_BYTES)? {
        None | Some("disabled") => Ok(()),
        Some(other) => {
            let message = format!("truncation is {}: a conversation is never cut here", said(Some(other)));
            Err(Fault::unsupported("truncation", message))
        }
    }
}

fn add_reasoning(fields: &Fields<'_>, chat: &mut Map<String, Value>) -> Result<(), Fault> {
    let Some(reasoning) = fields.get("reasoning") else { return Ok(()) };
    let reasoning = Fields::at(reasoning, "reasoning".into())?;
    if let Some(effort) = reasoning.text("effort", limits::NAME_BYTES)? {
        chat.insert("reasoning_effort".into(), effort.into());
    }
    Ok(())
}

/// `text.format` is `response_format` with one level less.
fn add_format(fields: &Fields<'_>, chat: &mut Map<String, Value>) -> Result<(), Fault> {
    let Some(text) = fields.get("text") else { return Ok(()) };
    let text = Fields::at(text, "text".into())?;
    let Some(format) = text.get("format") else { return Ok(()) };
    let format = Fields::at(format, "text.format".into())?;
    let said = match format.text("type", limits::NAME_BYTES)? {
        Some("json_schema") => {
            let schema = format.get("schema").ok_or_else(|| Fault::missing("text.format.schema"))?;
            let name = format.text("name", limits::NAME_BYTES)?.unwrap_or("response");
            let strict = format.boolean("strict")?.unwrap_or(false);
            json!({"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": strict}})
        }
        Some(kind @ ("text" | "json_object")) => json!({"type": kind}),
        other => {
            let message = format!(
                "text.format.type is {}; it must be \"text\", \"json_object\" or \"json_schema\"",
                said(other)
            );
            return Err(Fault::field("text.format.type", message));
        }
    };
    chat.insert("response_format".into(), said);
    Ok(())
}

fn add_tools(fields: &Fields<'_>, chat: &mut Map<String, Value>) -> Result<(), Fault> {
    if let Some(tools) = fields.list("tools", limits::TOOLS)? {
        let tool = |(i, tool): (usize, &Value)| {
            let tool = Fields::at(tool, format!("tools[{i}]"))?;
            let at = tool.param("type");
            match tool.text("type", limits::NAME_BYTES)? {
                Some("function") => {}
                kind => {
                    let message = format!("{at} is {}; this server knows functions only", said(kind));
                    return Err(Fault::unsupported(at, message));
                }
            }
            let name = tool.text("name", limits::NAME_BYTES)?;
            let name = name.ok_or_else(|| Fault::missing(tool.param("name")))?;
            let mut function = json!({"name": name});
            for known in ["description", "parameters", "strict"] {
                if let Some(value) = tool.get(known) {
                    function[known] = value.clone();
                }
            }
            Ok(json!({"type": "function", "function": function}))
        };
        let tools: Result<Vec<Value>, Fault> = tools.iter().enumerate().map(tool).collect();
        chat.insert("tools".into(), tools?.into());
    }
    match fields.get("tool_choice") {
        None => {}
        Some(word @ Value::String(_)) => _ = chat.insert("tool_choice".into(), word.clone()),
        Some(choice) => {
            let choice = Fields::at(choice, "tool_choice".into())?;
            let name = choice.text("name", limits::NAME_BYTES)?;
            let name = name.ok_or_else(|| Fault::missing("tool_choice.name"))?;
            let said = json!({"type": "function", "function": {"name": name}});
            chat.insert("tool_choice".into(), said);
        }
    }
    Ok(())
}

fn input(fields: &Fields<'_>) -> Result<Vec<Value>, Fault> {
    match fields.get("input") {
        None => Err(Fault::missing("input")),
        Some(Value::String(text)) => Ok(vec![json!({"role": "user", "content": text})]),
        Some(Value::Array(items)) if items.len() <= limits::MESSAGES => {
            let mut messages = Vec::with_capacity(items.len());
            for (i, item) in items.iter().enumerate() {
                add_item(&Fields::at(item, format!("input[{i}]"))?, &mut messages)?;
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

fn add_item(item: &Fields<'_>, messages: &mut Vec<Value>) -> Result<(), Fault> {
    let needed =
        |name: &str, most: usize| item.text(name, most)?.ok_or_else(|| Fault::missing(item.param(name)));
    match item.text("type", limits::NAME_BYTES)?.unwrap_or("message") {
        "message" => {
            let role = needed("role", limits::NAME_BYTES)?;
            messages.push(json!({"role": role, "content": content(item, "content")?}));
        }
        "function_call" => {
            let call = json!({
                "id": needed("call_id", limits::NAME_BYTES)?,
                "type": "function",
                "function": {
                    "name": needed("name", limits::NAME_BYTES)?,
                    "arguments": needed("arguments", usize::MAX)?,
                },
            });
            add_to_turn(messages, "tool_calls", |calls| match calls {
                Value::Array(calls) => calls.push(call),
                none => *none = json!([call]),
            });
        }
        "function_call_output" => {
            let id = needed("call_id", limits::NAME_BYTES)?;
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": content(item, "output")?}));
        }
        "reasoning" => {
            let thought =
                if item.get("content").is_some() { content(item, "content")? } else { String::new() };
            if !thought.is_empty() {
                messages.push(json!({"role": "assistant", "content": "", "reasoning_content": thought}));
            }
        }
        kind => {
            let at = item.param("type");
            let message = format!(
                "{at} is {}; this server reads messages, reasoning and function calls",
                said(Some(kind))
            );
            return Err(Fault::unsupported(at, message));
        }
    }
    Ok(())
}

/// Changes a field of the assistant's turn that the conversation ends with, which is begun if it does not.
fn add_to_turn(messages: &mut Vec<Value>, name: &str, change: impl FnOnce(&mut Value)) {
    if messages.last().is_none_or(|last| last["role"] != "assistant") {
        messages.push(json!({"role": "assistant", "content": ""}));
    }
    if let Some(last) = messages.last_mut() {
        change(&mut last[name]);
    }
}

/// Text, whole or in parts.
fn content(item: &Fields<'_>, name: &str) -> Result<String, Fault> {
    let at = item.param(name);
    match item.get(name) {
        None => Err(Fault::missing(at)),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) if parts.len() <= limits::PARTS => {
            let texts: Result<Vec<&str>, Fault> =
                parts.iter().enumerate().map(|(i, part)| part_text(part, format!("{at}[{i}]"))).collect();
            Ok(texts?.concat())
        }
        Some(Value::Array(parts)) => {
            let message = format!("{at} has {} parts; at most {} are allowed", parts.len(), limits::PARTS);
            Err(Fault::field(at, message))
        }
        Some(other) => Err(wrong(&at, other, "a string or a list of parts")),
    }
}

fn part_text(part: &Value, at: String) -> Result<&str, Fault> {
    let part = Fields::at(part, at)?;
    let kind = part.text("type", limits::NAME_BYTES)?;
    let field = match kind {
        Some("input_text" | "output_text" | "text" | "reasoning_text" | "summary_text") => "text",
        Some("refusal") => "refusal",
        _ => {
            let at = part.param("type");
            let message = format!("{at} is {}; this server reads text only", said(kind));
            return Err(Fault::unsupported(at, message));
        }
    };
    part.text(field, usize::MAX)?.ok_or_else(|| Fault::missing(part.param(field)))
}

/// What a response says of its request, with the API's defaults where nothing was said.
fn repeated(fields: &Fields<'_>) -> Result<Map<String, Value>, Fault> {
    let mut repeated = Map::new();
    for (name, default) in [
        ("instructions", Value::Null),
        ("max_output_tokens", Value::Null),
        ("metadata", json!({})),
        ("parallel_tool_calls", Value::Bool(true)),
        ("previous_response_id", Value::Null),
        ("reasoning", json!({"effort": null, "summary": null})),
        ("service_tier", "default".into()),
        ("temperature", Value::Null),
        ("text", json!({"format": {"type": "text"}})),
        ("tool_choice", "auto".into()),
        ("tools", json!([])),
        ("top_p", Value::Null),
        ("user", Value::Null),
    ] {
        repeated.insert(name.into(), fields.get(name).cloned().unwrap_or(default));
    }
    repeated.insert("truncation".into(), "disabled".into());
    if let Some(metadata) = fields.object("metadata", limits::METADATA)?
        && let Some((name, value)) = metadata.iter().find(|(_, v)| v.as_str().is_none_or(|s| s.len() > 512))
    {
        return Err(wrong(&format!("metadata.{name}"), value, "a string of at most 512 bytes"));
    }
    Ok(repeated)
}

/// Token counts in this API's shape.
pub fn usage_json(usage: &Usage, reasoning_tokens: usize) -> Value {
    let mut object = json!({
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.prompt_tokens_details.cached_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
        "total_tokens": usage.total_tokens,
    });
    if let Some(cost) = usage.cost {
        object["cost"] = json!(cost);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: Value) -> Result<ResponsesRequest, Fault> {
        ResponsesRequest::parse(body.to_string().as_bytes())
    }

    #[test]
    fn items_become_messages() {
        let request = parse(json!({
            "instructions": "Be brief.", "max_output_tokens": 9, "reasoning": {"effort": "low"},
            "text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}}},
            "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": true}],
            "tool_choice": {"type": "function", "name": "look"},
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "Where "}, {"type": "input_text", "text": "now?"}]},
                {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
                {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
                {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "there"}],
        }))
        .unwrap();
        let call =
            |id: &str| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}});
        let chat = request.chat(&[json!({"role": "user", "content": "before"})]);
        assert_eq!(
            chat["messages"],
            json!([
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "before"},
                {"role": "user", "content": "Where now?"},
                {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [call("c1"), call("c2")]},
                {"role": "tool", "tool_call_id": "c1", "content": "there"},
            ])
        );
        assert_eq!((&chat["max_completion_tokens"], &chat["reasoning_effort"]), (&json!(9), &json!("low")));
        assert_eq!(chat["response_format"]["json_schema"]["schema"], json!({"type": "object"}));
        assert_eq!(chat["tools"][0]["function"]["strict"], true);
        assert_eq!(chat["tool_choice"]["function"]["name"], "look");
    }

    #[test]
    fn what_cannot_be_said_is_named() {
        let of = |body: Value| parse(body).unwrap_err().param.unwrap();
        assert_eq!(of(json!({})), "input");
        assert_eq!(of(json!({"input": 1})), "input");
        assert_eq!(of(json!({"input": "x", "truncation": "auto"})), "truncation");
        assert_eq!(of(json!({"input": "x", "background": true, "stream": true})), "background");
        assert_eq!(of(json!({"input": "x", "tools": [{"type": "web_search"}]})), "tools[0].type");
        assert_eq!(of(json!({"input": [{"type": "item_reference", "id": "x"}]})), "input[0].type");
        let image = json!({"input": [{"role": "user", "content": [{"type": "input_image"}]}]});
        assert_eq!(of(image), "input[0].content[0].type");
        assert_eq!(of(json!({"input": "x", "metadata": {"a": 1}})), "metadata.a");
    }
}
