//! Translation of turns and their content blocks to chat messages.

use serde_json::{Value, json};

use crate::error::Fault;
use crate::fields::{Fields, said, wrong};
use crate::limits;
use crate::warnings::Warnings;

/// Start of a line that agents write as the first block of `system`, for the provider's billing. It differs between
/// conversations, so in the prompt it would prevent hits in the prefix cache; it is left out.
const BILLING: &str = "x-anthropic-billing-header:";

/// Translates `system` and `messages`.
pub(super) fn messages(fields: &Fields<'_>, warnings: &mut Warnings) -> Result<Vec<Value>, Fault> {
    let mut messages = system(fields)?;
    let turns = fields.list("messages", limits::MESSAGES)?.ok_or_else(|| Fault::missing("messages"))?;
    for (at, turn) in turns.iter().enumerate() {
        add_turn(&Fields::at(turn, format!("messages[{at}]"))?, &mut messages, warnings)?;
    }
    Ok(messages)
}

fn system(fields: &Fields<'_>) -> Result<Vec<Value>, Fault> {
    let Some(system) = fields.get("system") else { return Ok(Vec::new()) };
    let text = match system {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Result<Vec<&str>, Fault> =
                blocks.iter().enumerate().map(|(i, b)| text_of(b, format!("system[{i}]"))).collect();
            let told: Vec<&str> = texts?.into_iter().filter(|text| !text.starts_with(BILLING)).collect();
            told.join("\n")
        }
        other => return Err(wrong("system", other, "a string or a list of text blocks")),
    };
    Ok(if text.is_empty() { Vec::new() } else { vec![json!({"role": "system", "content": text})] })
}

/// The text of a block, or an error for other types of blocks.
fn text_of(block: &Value, at: String) -> Result<&str, Fault> {
    let fields = Fields::at(block, at)?;
    match fields.text("type", limits::NAME_BYTES)? {
        Some("text") => fields.text("text", usize::MAX)?.ok_or_else(|| Fault::missing(fields.param("text"))),
        None => Err(Fault::missing(fields.param("type"))),
        Some(kind) => Err(not_text(&fields, kind)),
    }
}

fn not_text(block: &Fields<'_>, kind: &str) -> Fault {
    let at = block.param("type");
    let message = format!("{at} is {}; this server reads text only", said(Some(kind)));
    Fault::unsupported(at, message)
}

/// Adds a turn as one message, and each tool result as a message of its own.
fn add_turn(turn: &Fields<'_>, messages: &mut Vec<Value>, warnings: &mut Warnings) -> Result<(), Fault> {
    let role = turn.text("role", limits::NAME_BYTES)?.ok_or_else(|| Fault::missing(turn.param("role")))?;
    if !matches!(role, "user" | "assistant" | "system") {
        let at = turn.param("role");
        let shown = said(Some(role));
        let message = format!("{at} is {shown}; it must be \"user\", \"assistant\" or \"system\"");
        return Err(Fault::field(at, message));
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
        said.add(role, &Fields::at(block, format!("{at}[{i}]"))?, messages, warnings)?;
    }
    said.push_as(role, messages);
    Ok(())
}

/// The content of a turn's blocks.
#[derive(Default)]
struct Said {
    text: Option<String>,
    thought: String,
    calls: Vec<Value>,
}

impl Said {
    fn add(
        &mut self,
        role: &str,
        block: &Fields<'_>,
        messages: &mut Vec<Value>,
        warnings: &mut Warnings,
    ) -> Result<(), Fault> {
        let needed = |name: &str, most: usize| {
            block.text(name, most)?.ok_or_else(|| Fault::missing(block.param(name)))
        };
        match (role, needed("type", limits::NAME_BYTES)?) {
            (_, "text") => self.text.get_or_insert_default().push_str(needed("text", usize::MAX)?),
            ("user" | "system", kind @ ("document" | "search_result")) => {
                let text = written(block, kind)?.ok_or_else(|| not_text(block, kind))?;
                self.text.get_or_insert_default().push_str(&text);
            }
            ("assistant", "thinking") => self.thought.push_str(needed("thinking", usize::MAX)?),
            ("assistant", "redacted_thinking") => {}
            // A summary that replaces earlier turns.
            (_, "compaction") => {
                let text = block.text("content", usize::MAX)?.unwrap_or_default();
                self.text.get_or_insert_default().push_str(text);
            }
            ("assistant", "tool_use") => {
                let input = block.object("input", usize::MAX)?.cloned().unwrap_or_default();
                let arguments = Value::Object(input).to_string();
                self.calls.push(json!({
                    "id": needed("id", limits::NAME_BYTES)?,
                    "type": "function",
                    "function": {"name": needed("name", limits::NAME_BYTES)?, "arguments": arguments},
                }));
            }
            ("user", "tool_result") => {
                let content = result_text(block, warnings)?;
                let id = needed("tool_use_id", limits::NAME_BYTES)?;
                messages.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
            }
            // Calls of tools that another server ran, with results that only that server can decode.
            (_, kind)
                if kind == "server_tool_use" || kind == "mcp_tool_use" || kind.ends_with("_tool_result") =>
            {
                let shown = said(Some(kind));
                warnings.add(format!("blocks of type {shown} are left out: another server ran these tools"));
            }
            (_, kind) => {
                let at = block.param("type");
                let shown = said(Some(kind));
                let message =
                    format!("{at} is {shown} in a turn of the {role}; this server reads text and tools");
                return Err(Fault::unsupported(at, message));
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

/// The text of a document or a search result, with its title; none if it is not text.
fn written(block: &Fields<'_>, kind: &str) -> Result<Option<String>, Fault> {
    let mut lines: Vec<&str> = Vec::new();
    lines.extend(block.text("title", usize::MAX)?);
    let source = block.get("source");
    let content = match (kind, source) {
        ("document", Some(source)) => {
            lines.extend(block.text("context", usize::MAX)?);
            let source = Fields::at(source, block.param("source"))?;
            match source.text("type", limits::NAME_BYTES)? {
                Some("text") => {
                    lines.extend(source.text("data", usize::MAX)?);
                    None
                }
                Some("content") => source.get("content"),
                _ => return Ok(None),
            }
        }
        ("document", None) => return Err(Fault::missing(block.param("source"))),
        _ => {
            lines.extend(source.and_then(Value::as_str));
            block.get("content")
        }
    };
    match content {
        None => {}
        Some(Value::String(text)) => lines.push(text),
        Some(Value::Array(blocks)) => {
            for (i, block) in blocks.iter().enumerate() {
                lines.push(text_of(block, format!("content[{i}]"))?);
            }
        }
        Some(other) => {
            return Err(wrong(&block.param("content"), other, "a string or a list of text blocks"));
        }
    }
    Ok(Some(lines.join("\n")))
}

/// The text of a tool result. Parts that are not text are replaced by a note instead of an error: they stay in the
/// agent's conversation, which could not continue otherwise.
fn result_text(result: &Fields<'_>, warnings: &mut Warnings) -> Result<String, Fault> {
    let at = result.param("content");
    let text = match result.get("content") {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let mut texts = Vec::with_capacity(blocks.len());
            for (i, block) in blocks.iter().enumerate() {
                texts.push(result_block(&Fields::at(block, format!("{at}[{i}]"))?, warnings)?);
            }
            texts.join("\n")
        }
        Some(other) => return Err(wrong(&at, other, "a string or a list of blocks")),
    };
    let failed = result.boolean("is_error")?.unwrap_or(false);
    let says_so = || text.to_ascii_lowercase().contains("error");
    Ok(if failed && !says_so() { format!("Error: {text}") } else { text })
}

fn result_block(block: &Fields<'_>, warnings: &mut Warnings) -> Result<String, Fault> {
    let kind = block.text("type", limits::NAME_BYTES)?.ok_or_else(|| Fault::missing(block.param("type")))?;
    let text = match kind {
        "text" => Some(
            block.text("text", usize::MAX)?.ok_or_else(|| Fault::missing(block.param("text")))?.to_owned(),
        ),
        "document" | "search_result" => written(block, kind)?,
        // All tools are in the prompt, so the name is enough as result of a tool search.
        "tool_reference" => Some(block.text("tool_name", limits::NAME_BYTES)?.unwrap_or_default().to_owned()),
        _ => None,
    };
    Ok(text.unwrap_or_else(|| {
        let shown = said(Some(kind));
        warnings.add(format!(
            "blocks of type {shown} in results of tools are left out: this server reads text only"
        ));
        format!("[{kind} left out: this model reads text only]")
    }))
}
