//! Messages of `/api/chat` as those of a chat completion.

use serde_json::{Map, Value, json};

use crate::error::Fault;
use crate::fields::Fields;
use crate::{limits, message};

/// Reads `messages`, which may be empty.
pub(super) fn read_all(body: &Fields<'_>) -> Result<Vec<Value>, Fault> {
    let list = body.list("messages", limits::MESSAGES)?.unwrap_or_default();
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let translated = list.iter().enumerate().map(|(i, message)| translate(message, format!("messages[{i}]")));
    let translated = json!({"messages": translated.collect::<Result<Vec<Value>, Fault>>()?});
    message::read_all(&Fields::body(&translated)?)
}

/// The same message under the names that chat completions have.
fn translate(message: &Value, path: String) -> Result<Value, Fault> {
    let message = Fields::at(message, path)?;
    if message.list("images", limits::PARTS)?.is_some_and(|images| !images.is_empty()) {
        let at = message.param("images");
        return Err(Fault::unsupported(at.clone(), format!("{at} has images; this model reads text only")));
    }
    let mut out = Map::new();
    let role = message.text("role", limits::NAME_BYTES)?.map(str::to_ascii_lowercase);
    out.insert("role".into(), role.into());
    // Ollama takes a message without content for an empty one.
    out.insert("content".into(), message.get("content").cloned().unwrap_or_else(|| "".into()));
    if let Some(thought) = message.text("thinking", usize::MAX)? {
        out.insert("reasoning_content".into(), thought.into());
    }
    if let Some(name) = message.text("tool_name", limits::NAME_BYTES)?.filter(|name| !name.is_empty()) {
        out.insert("name".into(), name.into());
    }
    for name in ["tool_calls", "tool_call_id"] {
        if let Some(value) = message.get(name) {
            out.insert(name.into(), value.clone());
        }
    }
    Ok(Value::Object(out))
}
